"""What every rollout has in common: the Protocol, the sessions of episodes, the end when they fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

from trainer_core.engine.protocols import InferenceEngine
from trainer_core.types import Episode, Sampling, Task, TrainingError


@dataclass(frozen=True)
class Tries:
    """How often each task is tried, and how."""

    repeats: int
    sampling: Sampling
    seed: int
    is_training: bool = True
    """False: agents may sample otherwise than `sampling`."""
    step: int = 0
    """The training step they are for."""


class Rollout(Protocol):
    """From tasks to judged episodes."""

    async def run(self, tasks: Sequence[Task], tries: Tries) -> list[Episode]:
        """The episodes of every task; those of one task lie together, in the order of `repeat`. One that
        fails says so in its `error`.

        Raises:
            TrainingError: the judge failed, or every episode did.
        """


def open_session(engine: InferenceEngine, place: tuple[int, ...], sessions: ExitStack) -> ExitStack:
    """A session of the engine, open; to be closed by itself, or with all of `sessions`."""
    session = sessions.enter_context(ExitStack())
    session.enter_context(engine.session(place))
    return session


@contextmanager
def first_failure() -> Iterator[None]:
    """Raise what made a `TaskGroup` cancel its other tasks, instead of a group of exceptions."""
    try:
        yield
    except ExceptionGroup as failed:
        first = failed.exceptions[0]
        raise first from first.__cause__  # which a bare `from None` would take away


def check_some_succeeded(episodes: Sequence[Episode]) -> None:
    """Raises:
    TrainingError: there are episodes, and all failed.
    """
    errors = [episode.error for episode in episodes if episode.error is not None]
    if errors and len(errors) == len(episodes):
        raise TrainingError(f"all {len(errors)} episodes failed; the first: {errors[0]}")
