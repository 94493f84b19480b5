"""The state of an experiment: a pure fold of its journal.

In: the entries of `journal.jsonl`. Out: `ExperimentState`, the one thing that policies, the guard, the
display and the command line look at. Nothing here touches the disk. What an entry means is said in `apply`,
in one table.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from harness import llm_use
from harness.journal import Entry
from harness.llm_use import LlmUse
from harness.options import RunOptions
from harness.pending_changes import PREPARING, PendingChanges, with_outcome
from harness.redaction import redact


class Outcome(str, Enum):
    """How an experiment ended; the value stands in finish.flag, `exit_code` is what `harness run` returns."""

    SUCCEEDED = "succeeded"
    SUCCEEDED_WITH_CHANGED_CODE = "succeeded_with_changed_code"
    """A model changed code on the way: every number comes from the changed code."""
    FAILED = "failed"
    CANNOT_RUN = "cannot_run"
    TIMED_OUT = "timed_out"
    STOPPED_EARLY = "stopped_early"
    CANCELLED = "cancelled"

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES[self]


_EXIT_CODES = {
    Outcome.SUCCEEDED: 0,
    Outcome.SUCCEEDED_WITH_CHANGED_CODE: 0,
    Outcome.FAILED: 1,
    Outcome.CANNOT_RUN: 2,
    Outcome.TIMED_OUT: 3,
    Outcome.STOPPED_EARLY: 4,
    Outcome.CANCELLED: 130,
}


COUNTING = ("succeeded", "succeeded_with_changed_code", "stopped_early", "timed_out")
"""Outcomes of runs whose numbers count in a comparison; for one that ran out of time they may."""


@dataclass(frozen=True)
class Verdict:
    """An outcome with the reason for it in one sentence."""

    outcome: Outcome
    reason: str


_VARYING = re.compile(
    r"0x[0-9a-fA-F]+|'(?P<single>[^']*)'|\"(?P<double>[^\"]*)\"|(?:/[\w.@-]+)+|\d+(?:\.\d+)?"
)
_NAME = re.compile(r"(?!0x[0-9a-fA-F]+$|(?=.*\d)[0-9a-fA-F]{6,}$)[A-Za-z0-9_]{1,40}")
"""A short word in quotes says what failed, as in `KeyError: 'reward'`; anything longer is an example."""


def failure_of(diagnosis: Mapping[str, Any]) -> str:
    """What makes two failures the same one: the signature, else the cause with what varies, and secrets, left
    out."""
    return str(
        diagnosis.get("signature") or _VARYING.sub(_general, redact(str(diagnosis.get("cause", ""))))[:200]
    )


def _general(match: re.Match[str]) -> str:
    quoted = match["single"] or match["double"] or ""
    return re.sub(r"\d+", "…", match.group()) if _NAME.fullmatch(quoted) else "…"


@dataclass(frozen=True)
class AttemptState:
    """One launch. Times are seconds since the epoch; `ended` is the supervisor's exit record, or how it was
    lost; `draft` is what was changed for it."""

    number: int
    session: str
    attempt_id: str
    why: str
    launched_at: float | None = None
    checkpoint: str | None = None
    first_step_at: float | None = None
    ended: dict[str, Any] | None = None
    stop_reason: str | None = None
    stop_detail: str = ""
    diagnosis: dict[str, Any] | None = None
    draft: PendingChanges = field(default_factory=PendingChanges)

    @property
    def is_running(self) -> bool:
        return self.launched_at is not None and self.ended is None


@dataclass(frozen=True)
class ExperimentState:
    """Everything known from the journal; the default value is an experiment that does not exist yet.

    `draft` is what the next launch will change; `checked` is the check of just that, None when there was none
    since it last changed. `unusable` are built-in repairs that could not be carried out since the last
    launch. `denied` is what a person did not approve (see `is_denied`), `asks` the action they are being
    asked about.
    """

    experiment_id: str = ""
    name: str = ""
    created_at: float = 0.0
    deadline_at: float = 0.0
    options: RunOptions = field(default_factory=RunOptions)
    plan: dict[str, Any] = field(default_factory=dict)
    prepared: bool = False
    checked: dict[str, Any] | None = None
    draft: PendingChanges = field(default_factory=PendingChanges)
    unusable: frozenset[str] = frozenset()
    attempts: tuple[AttemptState, ...] = ()
    stop_asked: str | None = None
    collected: dict[str, Any] | None = None
    reported: dict[str, Any] | None = None
    pending: Entry | None = None
    refusals: tuple[str, ...] = ()
    denied: frozenset[str] = frozenset()
    asks: str = ""
    narrative: dict[str, Any] = field(default_factory=dict)
    without_model: bool = False
    llm: LlmUse = field(default_factory=LlmUse)
    verdict: Verdict | None = None
    finished_at: float | None = None
    last_seq: int = 0

    @property
    def attempt(self) -> AttemptState | None:
        """The newest attempt."""
        return self.attempts[-1] if self.attempts else None

    @property
    def environment(self) -> dict[str, str]:
        """Variables set by repairs, for the next launch."""
        drafts = [*(attempt.draft for attempt in self.attempts), self.draft]
        return {name: value for draft in drafts for name, value in draft.environment.items()}

    @property
    def changed_files(self) -> tuple[str, ...]:
        """Files of the code that a model has changed for an attempt that was launched."""
        launched = (attempt for attempt in self.attempts if attempt.launched_at is not None)
        return tuple(dict.fromkeys(patch["path"] for attempt in launched for patch in attempt.draft.patches))

    @property
    def limits(self) -> frozenset[str]:
        """Limits that repairs have raised, for the next launch."""
        drafts = [*(attempt.draft for attempt in self.attempts), self.draft]
        done = [done.split(" ", 1) for draft in drafts for done in draft.measures]
        return frozenset(what for action, what in done if action == "raise_limit")

    def is_denied(self, action: str, args: Mapping[str, Any]) -> bool:
        """Whether a person said no to this action before."""
        return action in self.denied or _barred(action, args) in self.denied

    @property
    def phase(self) -> str:
        """The phase of the run's life, for people: DESIGN's `prepare → … → finish`."""
        attempt = self.attempt
        if self.finished_at is not None:
            return "finished"
        if self.asks:
            return f"waits for approval of {self.asks}"
        if self.reported is not None:
            return "finish"
        if self.collected is not None:
            return "report"
        if not self.prepared:
            return "prepare"
        if attempt is None:
            return "launch" if self.checked else "preflight"
        if attempt.launched_at is None:
            return "launch"
        if attempt.ended is None:
            return "watch" if attempt.first_step_at else "first step"
        return "collect" if attempt.ended.get("complete") else "diagnose"


def fold(entries: Iterable[Entry]) -> ExperimentState:
    """The state after all entries."""
    state = ExperimentState()
    for entry in entries:
        state = apply(state, entry)
    return state


def apply(state: ExperimentState, entry: Entry) -> ExperimentState:
    """The state after one more entry; entries of unknown kinds change nothing but `last_seq`."""
    state = replace(state, last_seq=entry.seq)
    if entry.kind in llm_use.ENTRIES:
        state = replace(state, llm=llm_use.fold(state.llm, entry))
        drops = entry.kind == "consulted" and entry.data.get("drops_draft", False)
        return replace(state, draft=PendingChanges(), checked=None) if drops else state
    handle = _ENTRIES.get(entry.kind)
    return handle(state, entry) if handle else state


def _created(state: ExperimentState, entry: Entry) -> ExperimentState:
    data = entry.data
    return replace(
        state,
        experiment_id=data["experiment_id"],
        name=data["name"],
        created_at=entry.time,
        deadline_at=data["deadline_at"],
        options=RunOptions(policy=data["policy"]),
        plan=data["plan"],
    )


def _intent(state: ExperimentState, entry: Entry) -> ExperimentState:
    state = replace(state, pending=entry, llm=llm_use.after_intent(state.llm, entry))
    if entry.data["action"] == "launch":
        return _launch_intended(state, entry)
    return state


def _launch_intended(state: ExperimentState, entry: Entry) -> ExperimentState:
    args = entry.data["args"]
    if state.attempt is not None and state.attempt.number == args["attempt"]:
        return state
    attempt = AttemptState(
        args["attempt"], args["session"], args["attempt_id"], args["why"], draft=state.draft
    )
    attempts = (*state.attempts, attempt)
    return replace(state, attempts=attempts, draft=PendingChanges(), checked=None, unusable=frozenset())


def _outcome(state: ExperimentState, entry: Entry) -> ExperimentState:
    if state.pending is not None and entry.data["action"] in PREPARING:
        args = state.pending.data["args"]
        if "error" in entry.data:
            state = replace(state, unusable=state.unusable | {args.get("remedy", "")} - {""})
        else:
            draft = with_outcome(state.draft, entry.data["action"], args, entry.data)
            state = replace(state, draft=draft, checked=None)
    llm = llm_use.after_outcome(state.llm, entry)
    state = replace(state, pending=None, refusals=(), llm=llm)
    handle = _OUTCOMES.get(entry.data["action"])
    return handle(state, entry) if handle else state


def _refused(state: ExperimentState, entry: Entry) -> ExperimentState:
    refusals = (*state.refusals, entry.data["why"])
    return replace(state, asks="", refusals=refusals, llm=llm_use.after_refusal(state.llm, entry))


def _denied(state: ExperimentState, entry: Entry) -> ExperimentState:
    return replace(state, denied=state.denied | {_barred(entry.data["action"], entry.data.get("args"))})


def _barred(action: str, args: Mapping[str, Any] | None) -> str:
    """What a person's "no" bars: every such action, but of those that prepare a launch this very change,
    whatever the reason given. Journals of an earlier version do not have `args`."""
    if args is None or action not in PREPARING:
        return action
    change = {name: value for name, value in args.items() if name not in ("why", "remedy")}
    return f"{action} {json.dumps(change, sort_keys=True)}"


def _event(state: ExperimentState, entry: Entry) -> ExperimentState:
    attempt = state.attempt
    if attempt is None or entry.data.get("attempt") != attempt.number:
        return state
    if entry.data["event"] == "first_step" and attempt.first_step_at is None:
        return _with_attempt(state, first_step_at=entry.data["at"])
    return state


def _finish(state: ExperimentState, entry: Entry) -> ExperimentState:
    verdict = Verdict(Outcome(entry.data["outcome"]), entry.data["reason"])
    return replace(state, verdict=verdict, finished_at=entry.time, pending=None)


def _with_attempt(state: ExperimentState, **changes: Any) -> ExperimentState:
    assert state.attempt is not None
    return replace(state, attempts=(*state.attempts[:-1], replace(state.attempt, **changes)))


def _launched(state: ExperimentState, entry: Entry) -> ExperimentState:
    return _with_attempt(
        state, launched_at=entry.data["launched_at"], checkpoint=entry.data.get("checkpoint")
    )


def _waited(state: ExperimentState, entry: Entry) -> ExperimentState:
    ended = entry.data.get("ended")
    return _with_attempt(state, ended=ended) if ended is not None else state


def _stopped(state: ExperimentState, entry: Entry) -> ExperimentState:
    return _with_attempt(
        state,
        ended=entry.data["ended"],
        stop_reason=entry.data["why"],
        stop_detail=entry.data.get("detail", ""),
    )


_ENTRIES: dict[str, Callable[[ExperimentState, Entry], ExperimentState]] = {
    "created": _created,
    "intent": _intent,
    "outcome": _outcome,
    "refused": _refused,
    "approval_asked": lambda state, entry: replace(state, asks=entry.data["action"]),
    "approved": lambda state, entry: replace(state, asks=""),
    "denied": _denied,
    "event": _event,
    "options": lambda state, entry: replace(state, options=RunOptions.from_json(entry.data)),
    "stop_asked": lambda state, entry: replace(state, stop_asked=entry.data["by"]),
    "model_unavailable": lambda state, entry: replace(state, without_model=True),
    "model_available": lambda state, entry: replace(state, without_model=False),
    "finish": _finish,
}

_OUTCOMES: dict[str, Callable[[ExperimentState, Entry], ExperimentState]] = {
    "prepare": lambda state, entry: replace(state, prepared=True),
    "check": lambda state, entry: replace(state, checked=entry.data),
    "launch": _launched,
    "wait": _waited,
    "stop": _stopped,
    "diagnose": lambda state, entry: _with_attempt(state, diagnosis=entry.data["diagnosis"]),
    "collect": lambda state, entry: replace(state, collected=entry.data),
    "write_report_section": lambda state, entry: replace(
        state, narrative={**state.narrative, entry.data["written"]["section"]: entry.data["written"]}
    ),
    "report": lambda state, entry: replace(state, reported=entry.data),
}
