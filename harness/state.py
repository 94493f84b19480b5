"""The state of an experiment: a pure fold of its journal.

In: the entries of `journal.jsonl`. Out: `ExperimentState`, the one thing that policies, the guard, the
display and the command line look at. Nothing here touches the disk. What an entry means is said in `apply`,
in one table.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness import llm_use
from harness.attempt import AttemptEnd, Diagnosis, Remedy, failure_of
from harness.blueprint.types import Blueprint
from harness.command import with_values
from harness.config import Scalar
from harness.journal import Entry, Event, Fold, events, model_events
from harness.llm_use import LlmUse
from harness.options import RunOptions
from harness.outcome import COUNTING, Outcome, Verdict
from harness.pending_changes import PREPARING, PendingChanges, edit_of, with_outcome
from monitors.files import SupervisorInfo

__all__ = ["COUNTING", "AttemptState", "ExperimentState", "Outcome", "Verdict", "apply", "failure_of", "fold"]

NOT_PLANNED = Blueprint(Path(), "", "", Path(), Path(), None, None, Path(), 0.0, 0.0, "")


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
    ended: AttemptEnd | None = None
    stop_reason: str | None = None
    stop_detail: str = ""
    diagnosis: Diagnosis | None = None
    draft: PendingChanges = field(default_factory=PendingChanges)
    supervisor: SupervisorInfo | None = None
    sandbox: str = ""

    @property
    def is_running(self) -> bool:
        return self.launched_at is not None and self.ended is None


@dataclass(frozen=True)
class ExperimentState:
    """Everything known from the journal; the default value is an experiment that does not exist yet.

    `draft` is what the next launch will change; `checked` is the check, `smoked` the smoke run of just that,
    None when there was none since it last changed. `unusable` are built-in repairs that were refused or could
    not be carried out since the last launch. `denied` is what a person did not approve (see `is_denied`),
    `asks` the action they are being asked about; `questions`, by entry, wait beside the run; `asked_at`: when
    the last was asked, `waited_s`: how long nothing ran for those that are settled. `model_notes` are those
    of the question that a model was asked last, `left_to_person` what it said when it gave up.
    """

    experiment_id: str = ""
    name: str = ""
    created_at: float = 0.0
    deadline_at: float = 0.0
    options: RunOptions = field(default_factory=RunOptions)
    blueprint: Blueprint = NOT_PLANNED
    prepared: bool = False
    checked: events.Checked | None = None
    smoked: events.SmokeRan | None = None
    smoke_runs: int = 0
    draft: PendingChanges = field(default_factory=PendingChanges)
    unusable: frozenset[str] = frozenset()
    attempts: tuple[AttemptState, ...] = ()
    stop_asked: str | None = None
    held: str = ""
    collected: events.Collected | None = None
    reported: events.Reported | None = None
    pending: events.Intent | None = None
    refusals: tuple[str, ...] = ()
    denied: frozenset[str] = frozenset()
    asks: str = ""
    asked_at: float = 0.0
    waited_s: float = 0.0
    questions: Mapping[int, events.PersonAsked] = field(default_factory=dict)
    narrative: dict[str, Any] = field(default_factory=dict)
    model_notes: tuple[str, ...] = ()
    left_to_person: tuple[str, ...] = ()
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
    def trains(self) -> bool:
        """True if a training runs, as far as is recorded."""
        return self.attempt is not None and self.attempt.is_running

    @property
    def _drafts(self) -> tuple[PendingChanges, ...]:
        return (*(attempt.draft for attempt in self.attempts), self.draft)

    @property
    def environment(self) -> dict[str, str]:
        """Variables set by repairs, for the next launch."""
        return {name: value for draft in self._drafts for name, value in draft.environment.items()}

    @property
    def patches(self) -> list[dict[str, str]]:
        """Every correction of code that an attempt has had or the next one will have, in order."""
        return [patch for draft in self._drafts for patch in draft.patches]

    @property
    def changed_files(self) -> tuple[str, ...]:
        """Files of the code that a model has changed for an attempt that was launched."""
        launched = (attempt for attempt in self.attempts if attempt.launched_at is not None)
        return tuple(dict.fromkeys(patch["path"] for attempt in launched for patch in attempt.draft.patches))

    @property
    def arguments(self) -> dict[str, Scalar]:
        """Keys that the launch command sets and that repairs have changed there, for the next launch."""
        return {key: value for draft in self._drafts for key, value in draft.arguments.items()}

    @property
    def command(self) -> str:
        """The launch command as the blueprint gives it, with what repairs have changed in it; "" for none."""
        return with_values(self.blueprint.launch_command or "", self.arguments)

    @property
    def limits(self) -> frozenset[str]:
        """Limits that repairs have raised, for the next launch."""
        done = (measure.split(" ", 1) for draft in self._drafts for measure in draft.measures)
        return frozenset(what for action, what in done if action == "raise_limit")

    @property
    def what_to_do(self) -> tuple[Remedy, ...]:
        """What a person can do about an end that is no success, in order; empty for any other."""
        judged = self.verdict or self.collected
        if judged is None or judged.outcome not in (Outcome.FAILED, Outcome.CANNOT_RUN, Outcome.TIMED_OUT):
            return ()
        told = (f"said by the policy, unchecked: {text}" for text in self.left_to_person)
        problems: tuple[str, ...] = ()
        if judged.outcome is Outcome.CANNOT_RUN and self.checked is not None:
            problems = self.checked.problems
        advice = tuple(Remedy.advice(text) for text in (*told, *problems))
        found = self.attempt.diagnosis if self.attempt is not None else None
        return advice + (found.what_to_do if found is not None else ())

    @property
    def no_words(self) -> str:
        """Why the model that was chosen has not written about the results; "" where it has, or was not to."""
        is_wanted = self.options.policy == "llm" and self.options.words and not self.narrative
        has_run = any(attempt.launched_at is not None for attempt in self.attempts)
        if not is_wanted or not has_run or llm_use.WORDS in self.llm.closed:
            return ""
        return self.llm.unanswered.get(llm_use.WORDS, "it was not asked yet")

    @property
    def waits_for_person(self) -> bool:
        """True if nothing runs, and nothing else is done, until a person has answered."""
        is_idle = self.pending is not None and self.pending.action == "wait"
        return not self.trains and bool(self.asks or (self.questions and is_idle))

    def took_s(self, now: float) -> float:
        """Seconds since it was created, or that it took, without those of waiting for a person."""
        end = now if self.finished_at is None else self.finished_at
        if self.finished_at is None and self.waits_for_person:
            ended = self.attempt.ended if self.attempt is not None else None
            end = max(self.asked_at, (ended and ended.ended_at) or self.asked_at)
        return end - self.created_at - self.waited_s

    def is_denied(self, action: str, args: Mapping[str, Any]) -> bool:
        """True if a person said no to this action before."""
        return action in self.denied or _barred(action, args) in self.denied

    @property
    def phase(self) -> str:
        """The phase of the run's life, for people: DESIGN's `prepare → … → finish`."""
        attempt = self.attempt
        if self.finished_at is not None:
            return "finished"
        if self.held:
            return "held"
        if self.asks:
            return f"waits for approval of {self.asks}"
        if self.questions and not self.trains and self.collected is None:
            return "waits for an answer"
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
        return "collect" if attempt.ended.complete else "diagnose"


def _created(state: ExperimentState, event: events.Created, entry: Entry) -> ExperimentState:
    return replace(
        state,
        experiment_id=event.experiment_id,
        name=event.name,
        created_at=entry.time,
        deadline_at=event.deadline_at,
        options=RunOptions(policy=event.policy),
        blueprint=event.blueprint,
    )


def _intent(state: ExperimentState, event: events.Intent, _: Entry) -> ExperimentState:
    state = replace(state, pending=event)
    args = event.args
    is_new = state.attempt is None or state.attempt.number != args.get("attempt")
    if event.action != "launch" or not is_new:
        return state
    attempt = AttemptState(
        args["attempt"], args["session"], args["attempt_id"], args["why"], draft=state.draft
    )
    attempts = (*state.attempts, attempt)
    return replace(
        state, attempts=attempts, draft=PendingChanges(), checked=None, smoked=None, unusable=frozenset()
    )


def _change_prepared(state: ExperimentState, event: events.ChangePrepared, _: Entry) -> ExperimentState:
    args = state.pending.args if state.pending is not None else {}
    if event.error:
        return replace(state, unusable=state.unusable | {args.get("remedy", "")} - {""})
    draft = with_outcome(state.draft, event.action, args, event.changes)
    return replace(state, draft=draft, checked=None, smoked=None)


def _smoke_ran(state: ExperimentState, event: events.SmokeRan, _: Entry) -> ExperimentState:
    """What the first launch would surely fail of counts as found by the check before it."""
    checked = state.checked
    if checked is not None and event.cause is not None and event.is_sure:
        problem = f"{event.cause.cause} — {event.fix}" if event.fix else event.cause.cause
        checked = events.Checked(
            False, (*checked.problems, problem), checked.warnings, (*checked.causes, event.cause)
        )
    return replace(state, smoked=event, smoke_runs=state.smoke_runs + 1, checked=checked)


def _person_asked(state: ExperimentState, event: events.PersonAsked, entry: Entry) -> ExperimentState:
    args = state.pending.args if state.pending is not None else {}
    state = replace(state, unusable=state.unusable | {args.get("remedy", "")} - {""})
    if event.error:
        return state
    return replace(state, questions={**state.questions, entry.seq: event}, asked_at=entry.time)


def _after_wait(state: ExperimentState, waited_s: float, **changes: Any) -> ExperimentState:
    """The time for which nothing ran because a person was asked counts nowhere."""
    deadline_at, waited_s = state.deadline_at + waited_s, state.waited_s + waited_s
    return replace(state, deadline_at=deadline_at, waited_s=waited_s, **changes)


def _person_answered(state: ExperimentState, event: events.PersonAnswered, _: Entry) -> ExperimentState:
    left = {number: asked for number, asked in state.questions.items() if number != event.number}
    state = _after_wait(state, event.waited_s, questions=left)
    if not event.changes:
        return state
    draft = with_outcome(state.draft, "edit_config", edit_of(event.changes), event.changes)
    return replace(state, draft=draft, checked=None, smoked=None, llm=replace(state.llm, gave_up=""))


def _consulted(state: ExperimentState, event: model_events.Consulted, _: Entry) -> ExperimentState:
    """Where it was about the results, the report is due once more, with the words or why there are none."""
    said = (*state.model_notes, event.why) if event.gave_up else state.left_to_person
    state = replace(state, left_to_person=tuple(dict.fromkeys(said)))
    state = replace(state, reported=None) if state.collected is not None else state
    if not event.drops_draft:
        return state
    return replace(state, draft=state.draft.decided_by_a_person, checked=None, smoked=None)


def _refused(state: ExperimentState, event: events.Refused, _: Entry) -> ExperimentState:
    unusable = state.unusable | {event.args.get("remedy", "")} - {""}
    return replace(state, asks="", refusals=(*state.refusals, event.why), unusable=unusable)


def _barred(action: str, args: Mapping[str, Any]) -> str:
    """What a person's "no" bars: every such action, but of those that prepare a launch this very change,
    whatever the reason given."""
    if action not in PREPARING:
        return action
    change = {name: value for name, value in args.items() if name not in ("why", "remedy")}
    return f"{action} {json.dumps(change, sort_keys=True)}"


def _launched(state: ExperimentState, event: events.Launched, _: Entry) -> ExperimentState:
    draft = state.attempts[-1].draft
    draft = replace(draft, changes=(*draft.changes, *event.differs))
    now = {"launched_at": event.launched_at, "checkpoint": event.checkpoint, "sandbox": event.sandbox}
    return _with_attempt(state, **now, draft=draft)


def _attempt_event(state: ExperimentState, event: events.AttemptEvent, _: Entry) -> ExperimentState:
    attempt = state.attempt
    if attempt is None or event.attempt != attempt.number or event.event != "first_step":
        return state
    return state if attempt.first_step_at is not None else _with_attempt(state, first_step_at=event.at)


def _with_attempt(state: ExperimentState, **changes: Any) -> ExperimentState:
    return replace(state, attempts=(*state.attempts[:-1], replace(state.attempts[-1], **changes)))


_HANDLERS: dict[type[Event], Callable[[ExperimentState, Any, Entry], ExperimentState]] = {
    events.Created: _created,
    events.OptionsGiven: lambda state, event, _: replace(state, options=event.options),
    events.Owner: lambda state, event, _: replace(state, held=""),
    events.Held: lambda state, event, _: replace(state, held=event.reason),
    events.StopAsked: lambda state, event, _: replace(state, stop_asked=event.by),
    events.Intent: _intent,
    events.Refused: _refused,
    events.ApprovalAsked: lambda state, event, entry: replace(state, asks=event.action, asked_at=entry.time),
    events.Approved: lambda state, event, _: _after_wait(state, event.waited_s, asks=""),
    events.Denied: lambda state, event, _: _after_wait(
        state, event.waited_s, denied=state.denied | {_barred(event.action, event.args)}
    ),
    events.PersonAsked: _person_asked,
    events.PersonAnswered: _person_answered,
    events.AttemptEvent: _attempt_event,
    events.SupervisorSeen: lambda state, event, _: _with_attempt(state, supervisor=event.supervisor),
    events.ChangePrepared: _change_prepared,
    events.Prepared: lambda state, event, _: replace(state, prepared=True),
    events.Checked: lambda state, event, _: replace(state, checked=event),
    events.SmokeRan: _smoke_ran,
    events.Launched: _launched,
    events.Waited: lambda state, event, _: _with_attempt(state, ended=event.ended) if event.ended else state,
    events.Stopped: lambda state, event, _: _with_attempt(
        state, ended=event.ended, stop_reason=event.why, stop_detail=event.detail
    ),
    events.Diagnosed: lambda state, event, _: _with_attempt(state, diagnosis=event.diagnosis),
    events.CauseNamed: lambda state, event, _: (
        _with_attempt(state, diagnosis=event.diagnosis) if event.diagnosis else state
    ),
    events.Collected: lambda state, event, _: replace(state, collected=event),
    events.SectionsWritten: lambda state, event, _: replace(
        state, narrative={**state.narrative, **event.written}
    ),
    events.Reported: lambda state, event, _: replace(state, reported=event),
    events.Noted: lambda state, event, _: replace(state, model_notes=(*state.model_notes, event.text)),
    model_events.Consult: lambda state, event, _: replace(state, model_notes=()),
    model_events.Consulted: _consulted,
    model_events.ModelUnavailable: lambda state, event, _: replace(state, without_model=True),
    model_events.ModelAvailable: lambda state, event, _: replace(state, without_model=False),
    events.Finish: lambda state, event, entry: replace(
        state, verdict=Verdict(event.outcome, event.reason), finished_at=entry.time, pending=None
    ),
}


class _RunFold(Fold[ExperimentState]):
    def apply(self, state: ExperimentState, entry: Entry) -> ExperimentState:
        """As the table says; and whatever comes counts for the model, and every result closes its intent."""
        state = super().apply(state, entry)
        llm = llm_use.after(state.llm, entry)
        if isinstance(entry.event, events.ActionResult):
            state = replace(state, pending=None, refusals=())
        return replace(state, last_seq=entry.seq, llm=llm)


FOLD = _RunFold(ExperimentState(), _HANDLERS)
fold, apply = FOLD.fold, FOLD.apply
