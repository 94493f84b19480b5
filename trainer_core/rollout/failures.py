"""Why an episode failed, told by the type of what was raised."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

FailureKind = Literal["workflow", "connection", "engine", "crash", "timeout", "no_reward"]
"""`workflow`: the user's code raised; `connection`: what it talked to could not be reached, or was busy;
`engine`: the model could not be sampled from; `crash`: its process died; `timeout`: it took too long;
`no_reward`: it returned none, and there is no judge."""

_OUTAGES = {
    "openai": ("APIConnectionError", "InternalServerError", "RateLimitError"),
    "anthropic": ("APIConnectionError", "InternalServerError", "RateLimitError"),
    "httpx": ("TransportError",),
    "httpx2": ("TransportError",),
    "requests": ("ConnectionError", "Timeout"),
    "aiohttp": ("ClientConnectionError",),
}
"""What clients raise when the other side, and not the code that asks, is to blame."""


@dataclass(frozen=True)
class Failure:
    """What went wrong with an episode."""

    kind: FailureKind
    text: str

    @property
    def is_worth_another_try(self) -> bool:
        """True if the same episode may well succeed a moment later."""
        return self.kind in ("connection", "engine")


class EpisodeError(Exception):
    """An episode failed where its exception cannot be had, such as in another process."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


def failure_of(error: BaseException) -> Failure:
    """What an exception of a workflow means."""
    if isinstance(error, EpisodeError):
        return error.failure
    outages: tuple[type[BaseException], ...] = (ConnectionError, TimeoutError, *_loaded_outages())
    leaves = list(_leaves(error))
    is_outage = all(any(isinstance(each, outages) for each in _causes(leaf)) for leaf in leaves)
    text = "; ".join(f"{type(leaf).__name__}: {leaf}" for leaf in leaves)
    return Failure("connection" if is_outage else "workflow", text)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _loaded_outages() -> Iterator[type[Exception]]:
    """Those of packages that are imported: what is not cannot have raised."""
    for module, names in _OUTAGES.items():
        if module in sys.modules:
            yield from (getattr(sys.modules[module], name) for name in names)
