"""What the journal says about the language model: calls, cost, and the consultation that is open.

A *consultation* is one question put to the model (an unknown failure, the reading of the results …) with the
calls and actions that answer it. It begins with an entry `consult`, and ends with one `consulted`.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from harness.codec import encode
from harness.journal import Entry
from harness.journal.events import ActionResult, Intent, Refused
from harness.journal.model_events import (
    CallRejected,
    Consult,
    Consulted,
    LlmReserved,
    LlmSettled,
    ModelTried,
    ViewShrunk,
)
from harness.providers import cost
from harness.providers.chat import Usage
from harness.providers.cost import Spending

WORDS = "results:1"
"""The topic of the question for words about the results."""


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

    def has_done(self, kind: str) -> bool:
        """True if an action of this kind was carried out for the question."""
        return any(call.startswith(f"{kind} ") for call, _ in self.seen)

    @property
    def kind(self) -> str:
        """What kind of question it is: `failure`, `results` …"""
        return self.topic.split(":")[0]

    def repeats(self, kind: str, args: Mapping[str, Any]) -> int:
        """How often this very call has been answered in the same words as the time before."""
        results = [result for call, result in self.seen if call == _signature(kind, args)]
        return results.count(results[-1]) if results else 0

    def after(self, event: object) -> "Consultation":
        """The question after one more event."""
        if isinstance(event, Intent):
            return replace(self, asked=_signature(event.action, event.args))
        if isinstance(event, ActionResult) and self.asked:
            result = json.dumps(encode(event), sort_keys=True)
            pair = self.asked, hashlib.sha256(result.encode()).hexdigest()[:16]
            return replace(self, asked="", troubles=0, seen=(*self.seen, pair))
        if isinstance(event, Refused | CallRejected):
            return replace(self, asked="", troubles=self.troubles + 1)
        if isinstance(event, LlmSettled):
            return replace(self, calls=self.calls + 1)
        return replace(self, shrunk=self.shrunk + 1) if isinstance(event, ViewShrunk) else self


@dataclass(frozen=True)
class LlmUse:
    """Money and answers. `tokens`: of all calls, `model`: the one asked last.

    `answer` is the settled call, with those of its tool calls that have led to no action yet; `made`: how
    many have. `closed` are the topics that are done with, `unanswered` those that were closed for want of an
    answer, and why; `was_tried`: see `ModelTried`;
    `gave_up` says why no launch may follow any more, "" while one may.
    """

    spending: Spending = field(default_factory=Spending)
    tokens: Usage = field(default_factory=Usage)
    model: str = ""
    answer: LlmSettled | None = None
    made: int = 0
    consultation: Consultation | None = None
    closed: frozenset[str] = frozenset()
    unanswered: Mapping[str, str] = field(default_factory=dict)
    was_tried: bool = False
    gave_up: str = ""

    @property
    def calls(self) -> int:
        return self.spending.calls

    @property
    def in_words(self) -> str:
        """What the model is asked now and has cost; "" where none was asked."""
        if not self.calls:
            return ""
        asked = f"asked about {self.consultation.topic}; " if self.consultation is not None else ""
        return f"{asked}{self.calls} calls, {self.cost_usd:.4f} USD"

    @property
    def cost_usd(self) -> float:
        """The most that can have been spent so far."""
        return self.spending.total_usd


def _signature(kind: str, args: Mapping[str, Any]) -> str:
    """One line that is the same for the same call."""
    return f"{kind} {json.dumps(args, sort_keys=True, ensure_ascii=False)}"


def after(use: LlmUse, entry: Entry) -> LlmUse:
    """The use after one more entry of the journal; those that it has no part in change nothing."""
    event = entry.event
    consultation = use.consultation
    is_of_code = isinstance(event, Intent) and use.answer is None
    if consultation is not None and not is_of_code:
        consultation = consultation.after(event)
    use = replace(use, spending=cost.after(use.spending, event), consultation=consultation)
    if isinstance(event, Intent | Refused):
        rest = use.answer.calls[1:] if use.answer is not None else ()
        answer = replace(use.answer, calls=rest) if use.answer is not None and rest else None
        return replace(use, answer=answer, made=use.made + 1)
    if isinstance(event, CallRejected):  # it answers what is left of the reply
        return replace(use, answer=None)
    if isinstance(event, LlmReserved):
        return replace(use, model=event.model)
    if isinstance(event, LlmSettled):
        return replace(use, tokens=use.tokens + Usage(**event.usage), answer=event, made=0)
    if isinstance(event, Consult):
        return replace(use, consultation=Consultation(event.topic, entry.seq), answer=None)
    if isinstance(event, Consulted):
        gave_up = event.why if event.gave_up else use.gave_up
        use = replace(use, consultation=None, answer=None, gave_up=gave_up)
        if event.unanswered:
            return replace(use, unanswered={**use.unanswered, event.topic: event.why})
        return replace(use, closed=use.closed | {event.topic})
    if isinstance(event, ModelTried):
        return replace(use, was_tried=True)
    return use
