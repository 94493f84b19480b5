"""The decisions of a run, made once more offline: from its journal, without a model, a network or an effect.

In: a result folder. Out: one `Decision` per decision of the loop, each saying whether today's code, shown the
same observation (and the same replies of the model), decides and asks the same.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from harness import journal
from harness.actions import arguments
from harness.agent import view
from harness.agent.llm import LlmPolicy
from harness.agent.playbook import Playbook
from harness.blueprint.types import Blueprint
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
from harness.observation import Observation
from harness.providers.chat import RejectedError, Request
from harness.providers.cost import Spending
from harness.providers.model import InterruptedAskError, LimitReachedError
from harness.providers.transcript import redacted_request, request_hash
from harness.repair import apply_changes
from harness.state import ExperimentState, apply, fold
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
    past = _Past(result_dir)
    begun = 0
    for position, entry in enumerate(entries):
        if not isinstance(entry.event, Intent | Refused) or not entry.event.observed:
            continue
        past.go_back_to(entries[:begun], entries[begun:position])
        yield asyncio.run(_decide_again(past, entry))
        begun = position + 1


async def _decide_again(past: "_Past", recorded: Entry) -> Decision:
    """What today's code decides where `recorded` was decided."""
    event = recorded.event
    assert isinstance(event, Intent | Refused)
    calls = sum(isinstance(entry.event, LlmReserved) for entry in past.ahead)
    past.let_pass()
    is_llm = past.state.options.policy == "llm" and not past.state.without_model
    policy = LlmPolicy(past, _RecordedModel(past), asyncio.Event()) if is_llm else Playbook()  # type: ignore[arg-type]
    action = await policy.decide(_observation(past, event.observed))
    if (action.kind, arguments(action)) != (event.action, event.args):
        past.differences.append(f"decided {action.kind} {arguments(action)}")
    return Decision(
        recorded.seq,
        recorded.time,
        event.action,
        dict(event.args),
        isinstance(event, Refused),
        calls,
        tuple(past.differences),
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
        apply_changes.config_before(past, state),  # type: ignore[arg-type]
        past.dir,
        view.citable(past.dir, past.entries) if may_cite else None,
    )


class _Past:
    """An experiment as it was: what is recorded is compared with what was recorded then."""

    def __init__(self, result_dir: Path) -> None:
        self.dir = result_dir
        self.entries: list[Entry] = []
        self.ahead: list[Entry] = []
        self.state = ExperimentState()
        self.differences: list[str] = []

    @property
    def journal(self) -> "_Past":
        return self

    @property
    def blueprint(self) -> Blueprint:
        return self.state.blueprint

    def attempt_files(self, number: int) -> AttemptFiles:
        return AttemptFiles(self.dir / "attempts" / f"{number:02d}")

    def go_back_to(self, entries: list[Entry], ahead: list[Entry]) -> None:
        """Stand after `entries`; `ahead` is what was recorded from there to the next decision."""
        self.entries, self.ahead, self.state = list(entries), list(ahead), fold(entries)
        self.differences = []

    def let_pass(self) -> None:
        """Let happen what the policy had no part in, up to the next thing that it recorded."""
        while self.ahead and not isinstance(self.ahead[0].event, OF_THE_MODEL):
            self._add(self.ahead.pop(0))

    def next(self, kind: type[_Event]) -> _Event | None:
        """What was recorded next, if it is of this kind: it happens now."""
        self.let_pass()
        if not self.ahead or not isinstance(event := self.ahead[0].event, kind):
            return None
        self._add(self.ahead.pop(0))
        return event

    def record(self, event: Event) -> Entry:
        """What the policy records: the entry recorded then, if it was one of this kind."""
        self.let_pass()
        if self.ahead and type(self.ahead[0].event) is type(event):
            return self._add(self.ahead.pop(0))
        self.differences.append(f"recorded {event.kind} {getattr(event, 'topic', '')}".rstrip())
        return self._add(Entry(len(self.entries) + 1, 0.0, event))

    def _add(self, entry: Entry) -> Entry:
        self.entries.append(entry)
        self.state = apply(self.state, entry)
        return entry


class _RecordedModel:
    """Answers with what the model answered then."""

    def __init__(self, past: _Past) -> None:
        self._past = past

    async def ask(self, request: Request, spending: Spending, **options: Any) -> None:
        past = self._past
        reserved = past.next(LlmReserved)
        if reserved is None:
            raise LimitReachedError("no call was made here")
        if request_hash(redacted_request(request)) != reserved.request:
            past.differences.append(
                "the prompt is not the one that was sent (or secrets of that day's environment were masked)"
            )
        while past.next(LlmRetried):
            pass
        if past.next(LlmSettled):
            return
        failed = past.next(LlmFailed)
        if failed is None:
            return  # a kill cut this call off; the next harness asked again, or decided without
        past.let_pass()
        is_given_up = past.ahead and isinstance(past.ahead[0].event, Consulted)
        raise (RejectedError if is_given_up else InterruptedAskError)(failed.error)
