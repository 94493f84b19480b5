"""The decisions of a run, made once more offline: from its journal, without a model, a network or an effect.

In: a result folder. Out: one `Decision` per decision of the loop, each saying whether today's code, shown the
same observation (and the same replies of the model), decides and asks the same.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from harness import journal
from harness.actions import arguments
from harness.agent import view
from harness.agent.llm import LlmPolicy
from harness.agent.playbook import Playbook
from harness.blueprint.types import Blueprint
from harness.environment import remembered
from harness.journal import Entry, Event
from harness.journal.events import Intent, Refused
from harness.journal.model_events import (
    OF_THE_MODEL,
    Consulted,
    LlmFailed,
    LlmReserved,
    LlmRetried,
    LlmSettled,
)
from harness.observation import Observation, Progress
from harness.providers.chat import RejectedError, Request
from harness.providers.cost import Spending
from harness.providers.model import InterruptedAskError, LimitReachedError, OutOfPatienceError
from harness.providers.transcript import redacted_request, request_hash
from harness.repair import apply_changes
from harness.state import apply, fold
from monitors.files import AttemptFiles
from monitors.rules import Health

_Event = TypeVar("_Event", bound=Event)


@dataclass(frozen=True)
class Decision:
    """One decision. `number`: of its entry in the journal; `calls`: how many calls of a model led to it;
    `differs`: what is not the same this time, empty when all is."""

    number: int
    time: float
    action: str
    args: dict[str, Any]
    refused: bool
    calls: int
    differs: tuple[str, ...]


def replay(result_dir: Path) -> Iterator[Decision]:
    """Every decision of the run, in order. Raises JournalDamagedError."""
    entries = journal.read(result_dir / "journal.jsonl")
    begun = 0
    for position, entry in enumerate(entries):
        if isinstance(entry.event, Intent | Refused) and entry.event.observed:
            past = _Past(result_dir, entries[:begun], entries[begun:position])
            yield asyncio.run(_decide_again(past, entry, entry.event))
            begun = position + 1


async def _decide_again(past: "_Past", recorded: Entry, event: Intent | Refused) -> Decision:
    """What today's code decides where `recorded` was decided."""
    calls = sum(isinstance(entry.event, LlmReserved) for entry in past.ahead)
    past.let_pass()
    is_llm = past.state.options.policy == "llm" and not past.state.without_model
    policy = LlmPolicy(past, past, asyncio.Event()) if is_llm else Playbook()  # type: ignore[arg-type]
    action = await policy.decide(_observation(past, event.observed))
    if (action.kind, arguments(action)) != (event.action, event.args):
        past.differences.append(f"decided {action.kind} {arguments(action)}")
    return Decision(
        number=recorded.seq,
        time=recorded.time,
        action=event.action,
        args=dict(event.args),
        refused=isinstance(event, Refused),
        calls=calls,
        differs=tuple(past.differences),
    )


def _observation(past: "_Past", seen: Mapping[str, Any]) -> Observation:
    health, state = seen.get("health", {}), past.state
    may_cite = state.collected is not None and state.options.policy == "llm"
    return Observation(
        state,
        seen["now"],
        seen.get("overdue", False),
        seen.get("unrecorded", False),
        Health(**{**health, "fatal": tuple(health.get("fatal", ()))}),
        Progress(**seen["progress"]) if "progress" in seen else None,
        apply_changes.config_before(past, state),  # type: ignore[arg-type]
        past.dir,
        view.citable(past.dir, past.entries) if may_cite else None,
    )


class _Past:
    """An experiment, its journal and its model as they were: it stands after `entries`, and what the policy
    records or asks is compared with what was recorded from there to the next decision, `ahead`."""

    def __init__(self, result_dir: Path, entries: Sequence[Entry], ahead: Sequence[Entry]) -> None:
        self.dir = result_dir
        self.entries, self.ahead = list(entries), list(ahead)
        self.state = fold(entries)
        self.journal = self
        self.differences: list[str] = []
        self.known = remembered(result_dir)

    @property
    def blueprint(self) -> Blueprint:
        return self.state.blueprint

    def attempt_files(self, number: int) -> AttemptFiles:
        return AttemptFiles(self.dir / "attempts" / f"{number:02d}")

    def let_pass(self) -> None:
        """Let happen what the policy had no part in, up to the next thing that it recorded."""
        while self.ahead and not isinstance(self.ahead[0].event, OF_THE_MODEL):
            self._add(self.ahead.pop(0))

    def record(self, event: Event) -> Entry:
        """What the policy records: the entry recorded then, if it was one of this kind."""
        self.let_pass()
        if self.ahead and type(self.ahead[0].event) is type(event):
            return self._add(self.ahead.pop(0))
        self.differences.append(f"recorded {event.kind} {getattr(event, 'topic', '')}".rstrip())
        return self._add(Entry(len(self.entries) + 1, 0.0, event))

    async def ask(self, request: Request, spending: Spending, **options: Any) -> None:
        """Answer with what the model answered then."""
        reserved = self._next(LlmReserved)
        if reserved is None:
            raise LimitReachedError("no call was made here")
        if request_hash(redacted_request(request, self.known)) != reserved.request:
            self.differences.append(
                "the prompt is not the one that was sent (or secrets of that day's environment were masked)"
            )
        while self._next(LlmRetried):
            pass
        if self._next(LlmSettled):
            return
        failed = self._next(LlmFailed)
        if failed is None:
            return  # a kill cut this call off; the next harness asked again, or decided without
        self.let_pass()
        closed = self.ahead[0].event if self.ahead else None
        if not isinstance(closed, Consulted):
            raise InterruptedAskError(failed.error)
        raise (OutOfPatienceError if closed.unanswered else RejectedError)(failed.error)

    def _next(self, kind: type[_Event]) -> _Event | None:
        """What was recorded next, if it is of this kind: it happens now."""
        self.let_pass()
        if not self.ahead or not isinstance(event := self.ahead[0].event, kind):
            return None
        self._add(self.ahead.pop(0))
        return event

    def _add(self, entry: Entry) -> Entry:
        self.entries.append(entry)
        self.state = apply(self.state, entry)
        return entry
