"""What the journal says about the language model: calls, cost, and the consultation that is open.

A *consultation* is one question put to the model (an unknown failure, the reading of the results …) with the
calls and actions that answer it. It begins with an entry `consult`, and ends with one `consulted`.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from harness.codec import encode
from harness.journal import Entry, Event
from harness.journal.events import ActionResult, Intent, Refused
from harness.journal.model_events import (
    CallRejected,
    Consult,
    Consulted,
    LlmReserved,
    LlmSettled,
    ViewShrunk,
)
from harness.providers import cost
from harness.providers.cost import Spending


@dataclass(frozen=True)
class Consultation:
    """The open question. `topic` names it for good; `since` is the number of its first entry; `seen` counts
    (call, result) pairs, by which repeating without learning is noticed; `shrunk` times the view was halved
    because it did not fit the model."""

    topic: str
    since: int
    calls: int = 0
    troubles: int = 0
    seen: tuple[tuple[str, str], ...] = ()
    asked: str = ""
    shrunk: int = 0

    def repeats(self, kind: str, args: Mapping[str, Any]) -> int:
        """How often this very call has been answered in the same words as the time before."""
        results = [result for call, result in self.seen if call == signature(kind, args)]
        return results.count(results[-1]) if results else 0


@dataclass(frozen=True)
class LlmUse:
    """Money and answers. `tokens` are sums by the names of `Usage`, `model` the one asked last.

    `answer` is the settled call that has led to no action yet; `closed` are the topics that are done with;
    `gave_up` says why no launch may follow any more, "" while one may.
    """

    spending: Spending = field(default_factory=Spending)
    tokens: dict[str, int] = field(default_factory=dict)
    model: str = ""
    answer: LlmSettled | None = None
    consultation: Consultation | None = None
    closed: frozenset[str] = frozenset()
    gave_up: str = ""

    @property
    def calls(self) -> int:
        return self.spending.calls

    @property
    def cost_usd(self) -> float:
        """The most that can have been spent so far."""
        return self.spending.total_usd


def signature(kind: str, args: Mapping[str, Any]) -> str:
    """One line that is the same for the same call."""
    return f"{kind} {json.dumps(args, sort_keys=True, ensure_ascii=False)}"


def digest(outcome: Mapping[str, Any]) -> str:
    """One word that is the same for the same result."""
    return hashlib.sha256(json.dumps(outcome, sort_keys=True, default=str).encode()).hexdigest()[:16]


def after(use: LlmUse, entry: Entry) -> LlmUse:
    """The use after one more entry of the journal; those that it has no part in change nothing."""
    event = entry.event
    use = replace(use, spending=cost.after(use.spending, event))
    if isinstance(event, ActionResult):
        return _with_result(use, event)
    if isinstance(event, Consult):
        return replace(use, consultation=Consultation(event.topic, entry.seq), answer=None)
    handle = _HANDLERS.get(type(event))
    return handle(use, event) if handle else use


def _intended(use: LlmUse, event: Intent) -> LlmUse:
    """An answer that became an action is used up."""
    return _consulting(replace(use, answer=None), asked=signature(event.action, event.args))


def _with_result(use: LlmUse, event: ActionResult) -> LlmUse:
    """What an action of the consultation brought."""
    open_now = use.consultation
    if open_now is None or not open_now.asked:
        return use
    return _consulting(
        use, asked="", troubles=0, seen=(*open_now.seen, (open_now.asked, digest(encode(event))))
    )


def _consulting(use: LlmUse, **changes: Any) -> LlmUse:
    if use.consultation is None:
        return use
    return replace(use, consultation=replace(use.consultation, **changes))


def _trouble(use: LlmUse) -> LlmUse:
    """An answer that led to nothing."""
    troubles = use.consultation.troubles + 1 if use.consultation else 0
    return _consulting(replace(use, answer=None), troubles=troubles, asked="")


def _settled(use: LlmUse, event: LlmSettled) -> LlmUse:
    tokens = dict(use.tokens)
    for name, count in event.usage.items():
        tokens[name] = tokens.get(name, 0) + count
    use = replace(use, tokens=tokens, answer=event)
    return _consulting(use, calls=use.consultation.calls + 1) if use.consultation else use


def _consulted(use: LlmUse, event: Consulted) -> LlmUse:
    gave_up = event.why if event.gave_up else use.gave_up
    closed = use.closed | {event.topic}
    return replace(use, consultation=None, answer=None, closed=closed, gave_up=gave_up)


def _shrunk(use: LlmUse, _: ViewShrunk) -> LlmUse:
    return _consulting(use, shrunk=use.consultation.shrunk + 1) if use.consultation else use


_HANDLERS: dict[type[Event], Callable[[LlmUse, Any], LlmUse]] = {
    LlmReserved: lambda use, event: replace(use, model=event.model),
    LlmSettled: _settled,
    Intent: _intended,
    Refused: lambda use, event: _trouble(use),
    CallRejected: lambda use, event: _trouble(use),
    ViewShrunk: _shrunk,
    Consulted: _consulted,
}
