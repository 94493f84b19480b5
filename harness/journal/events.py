"""Everything that can stand in a run's journal: one class per kind of entry, and `RUN`, the table of which
may follow which."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from harness.attempt import AttemptEnd, Diagnosis
from harness.blueprint.types import Blueprint
from harness.journal.order import Event, Order, Step
from harness.options import RunOptions
from harness.outcome import Outcome
from harness.pending_changes import Change

VERSION = 2
"""Of the journal's format; a journal of another version is refused."""
Args = Mapping[str, Any]
"""Arguments of an action as JSON values; `harness.agent.actions` says what each action has."""

# --- the run as a whole ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Created(Event, kind="created"):
    """The run begins. `policy`: who decides; `deadline_at`: when its time is used up."""

    experiment_id: str
    name: str
    deadline_at: float
    policy: str
    blueprint: Blueprint
    version: int = VERSION


@dataclass(frozen=True)
class OptionsGiven(Event, kind="options"):
    """What a person chose for this run, at its start or when resuming it."""

    options: RunOptions


@dataclass(frozen=True)
class Owner(Event, kind="owner"):
    """A process took the journal over; what the one before had begun and not ended is done once more."""

    pid: int
    host: str

    @classmethod
    def this_process(cls) -> Owner:
        return cls(os.getpid(), socket.gethostname())


@dataclass(frozen=True)
class JournalRepaired(Event, kind="journal_repaired"):
    """A line that a loss of power had cut was taken out of the journal; it never took effect."""

    torn: str


@dataclass(frozen=True)
class LetGo(Event, kind="let_go"):
    """The owner went away on purpose; trainings go on. `status`: its exit status."""

    status: int = 0
    hands_over: bool = False


@dataclass(frozen=True)
class Detached(Event, kind="detached"):
    """The next owner runs in this tmux session."""

    session: str


@dataclass(frozen=True)
class StopAsked(Event, kind="stop_asked"):
    """A person wants an end. `by`: who, or with which command."""

    by: str


@dataclass(frozen=True)
class CopyKept(Event, kind="copy_kept"):
    """Something that the training wrote into the private copy of its code was left there."""

    folder: str


@dataclass(frozen=True)
class Finish(Event, kind="finish"):
    """The end; nothing follows it."""

    outcome: Outcome
    reason: str


# --- decisions ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Intent(Event, kind="intent"):
    """An action is about to be carried out. `observed`: what the policy saw beside the state."""

    action: str
    args: Args = field(default_factory=dict)
    observed: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Refused(Event, kind="refused"):
    """An action that the rules, or a person, did not let through."""

    action: str
    args: Args
    why: str
    observed: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ActionFailed(Event, kind="action_failed"):
    """Carrying the action out raised an error; the run ends here until it is resumed."""

    action: str
    error: str


@dataclass(frozen=True)
class ApprovalAsked(Event, kind="approval_asked"):
    """A person is asked whether this may be done."""

    action: str
    args: Args


@dataclass(frozen=True)
class Approved(Event, kind="approved"):
    """A person said yes."""

    action: str
    by: str


@dataclass(frozen=True)
class Denied(Event, kind="denied"):
    """A person said no."""

    action: str
    args: Args
    by: str


# --- what came of an action -----------------------------------------------------------------------------


class ActionResult(Event):
    """What an action led to; every subclass has `action`, the one that its intent named."""


@dataclass(frozen=True)
class Looked(ActionResult, kind="looked"):
    """An action that only looks. `text`: what it showed; `error`: why there was nothing."""

    action: str
    text: str = ""
    error: str = ""


@dataclass(frozen=True)
class ChangePrepared(ActionResult, kind="change_prepared"):
    """An action that changes the next launch. `error`: why it changed nothing."""

    action: str
    changes: tuple[Change, ...] = ()
    text: str = ""
    error: str = ""


@dataclass(frozen=True)
class Prepared(ActionResult, kind="prepared"):
    """Provenance is written."""

    action: ClassVar[str] = "prepare"


@dataclass(frozen=True)
class Checked(ActionResult, kind="checked"):
    """The check of the next launch. `problems`, `warnings`: sentences. `causes`: for each problem what a
    diagnosis would say of the failure that it would become."""

    action: ClassVar[str] = "check"
    can_run: bool
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    causes: tuple[Diagnosis, ...] = ()


@dataclass(frozen=True)
class Launched(ActionResult, kind="launched"):
    """The attempt runs. `checkpoint`: what it goes on from, None for the beginning."""

    action: ClassVar[str] = "launch"
    launched_at: float
    command: str = ""
    checkpoint: str | None = None


@dataclass(frozen=True)
class Waited(ActionResult, kind="waited"):
    """Something happened while the attempt ran. `ended`: its end, None while it goes on."""

    action: ClassVar[str] = "wait"
    reason: str
    detail: str = ""
    waited_s: float = 0.0
    ended: AttemptEnd | None = None


@dataclass(frozen=True)
class Paused(ActionResult, kind="paused"):
    """Time passed before the next launch. `reason`: why it was cut short, "" where it was not."""

    action: ClassVar[str] = "pause"
    paused_s: float = 0.0
    reason: str = ""


@dataclass(frozen=True)
class Stopped(ActionResult, kind="stopped"):
    """The attempt was ended. `why`: as in the action, None where it had ended by itself."""

    action: ClassVar[str] = "stop"
    ended: AttemptEnd
    why: str | None = None
    detail: str = ""


@dataclass(frozen=True)
class Diagnosed(ActionResult, kind="diagnosed"):
    """Why the attempt ended, with the repairs that apply."""

    action: ClassVar[str] = "diagnose"
    diagnosis: Diagnosis


@dataclass(frozen=True)
class Noted(ActionResult, kind="noted"):
    """A remark of the policy."""

    action: ClassVar[str] = "note"
    text: str


@dataclass(frozen=True)
class SectionWritten(ActionResult, kind="section_written"):
    """A section of the narrative, as `results.narrative` has it; `left_out`: what could not stand."""

    action: ClassVar[str] = "write_report_section"
    written: Mapping[str, Any]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Collected(ActionResult, kind="collected"):
    """How the run is judged, from its raw files."""

    action: ClassVar[str] = "collect"
    outcome: Outcome
    reason: str


@dataclass(frozen=True)
class Reported(ActionResult, kind="reported"):
    """The report is written. `headline`: its first sentences; `discrepancies`: numbers that were withheld;
    `error`: why it could not be built, "" where it could."""

    action: ClassVar[str] = "report"
    headline: tuple[str, ...] = ()
    discrepancies: tuple[Mapping[str, str], ...] = ()
    error: str = ""


# --- what befell a training -----------------------------------------------------------------------------


@dataclass(frozen=True)
class AttemptEvent(Event, kind="event"):
    """Something seen of an attempt. `event`: as monitors name it, or `session_gone`, `log_lost`. `at`: when
    it happened; `step` and `line` of its log, None where they are not known."""

    attempt: int
    event: str
    at: float
    text: str = ""
    step: int | None = None
    line: int | None = None


# --- the language model ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class ModelAvailable(Event, kind="model_available"):
    """The model decides again."""

    model: str


@dataclass(frozen=True)
class ModelUnavailable(Event, kind="model_unavailable"):
    """The playbook decides, although a model was asked for."""

    why: str


@dataclass(frozen=True)
class Consult(Event, kind="consult"):
    """A question to the model is opened. `topic` names it for good; `facts` fill its prompt."""

    topic: str
    why: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Consulted(Event, kind="consulted"):
    """The question is closed. `gave_up`: no launch may follow; `drops_draft`: what it had changed for the
    next launch is dropped."""

    topic: str
    why: str
    gave_up: bool = False
    drops_draft: bool = False


@dataclass(frozen=True)
class ViewShrunk(Event, kind="view_shrunk"):
    """The request did not fit the model; the next one is half as long."""

    topic: str
    why: str


@dataclass(frozen=True)
class CallRejected(Event, kind="call_rejected"):
    """An answer that is no usable tool call. `call`: number of the call."""

    call: int
    why: str


@dataclass(frozen=True)
class LlmReserved(Event, kind="llm_reserved"):
    """A call is about to be made. `reserved_usd`: the most it can cost, None where the price is not known;
    `request`: the hash by which the transcript has it."""

    call: int
    reserved_usd: float | None
    model: str
    request: str


@dataclass(frozen=True)
class LlmRetried(Event, kind="llm_retried"):
    """The provider did not answer; the call is tried again. `cost_usd`: of all tries so far."""

    call: int
    error: str
    tries: int = 1
    cost_usd: float | None = None
    reserved_usd: float | None = None


@dataclass(frozen=True)
class LlmSettled(Event, kind="llm_settled"):
    """The model answered. `usage`: tokens by kind; `calls`: tool calls, each {id, name, arguments}."""

    call: int
    cost_usd: float | None
    usage: Mapping[str, int]
    stop: str
    text: str = ""
    calls: tuple[Mapping[str, str], ...] = ()
    is_estimated: bool = False
    tries: int = 1


@dataclass(frozen=True)
class LlmFailed(Event, kind="llm_failed"):
    """The call came to nothing; what it cost is `is_estimated` where it was cut off."""

    call: int
    cost_usd: float | None
    error: str
    is_estimated: bool = False
    tries: int = 1


LlmEnded = LlmSettled | LlmFailed
OF_THE_MODEL = (LlmReserved, LlmRetried, LlmSettled, LlmFailed, CallRejected, ViewShrunk, Consult, Consulted)
"""What a policy that asks a model records by itself."""


# --- which may follow which -----------------------------------------------------------------------------


def _result(needs: str = "", bars: str = "", clears: str = "", sets: str = "") -> Any:
    """The row of an action's result: it closes the intent of just this action."""
    return lambda event: Step(f"acting:{event.action} {needs}", bars, f"acting {clears}", sets)


_ASIDE = Step()
RUN = Order(
    Created,
    {
        Created: Step(sets="begun"),
        OptionsGiven: _ASIDE,
        JournalRepaired: _ASIDE,
        StopAsked: _ASIDE,
        LetGo: _ASIDE,
        Detached: _ASIDE,
        Owner: Step(clears="acting calling"),
        Intent: lambda event: Step(bars="acting calling", sets=f"acting:{event.action}"),
        Refused: Step(bars="acting calling", clears="asking"),
        ActionFailed: lambda event: Step(f"acting:{event.action}", clears="acting"),
        ApprovalAsked: Step(bars="acting calling", sets="asking"),
        Approved: Step("asking", clears="asking"),
        Denied: Step("asking", clears="asking"),
        Looked: _result(),
        Noted: _result(),
        Prepared: _result(),
        Paused: _result(),
        ChangePrepared: _result(bars="running"),
        Checked: _result(bars="running"),
        Launched: _result(bars="running collected", sets="running launched"),
        Waited: lambda event: Step(
            "acting:wait running", clears="acting running" if event.ended is not None else "acting"
        ),
        Stopped: _result("running", clears="running"),
        Diagnosed: _result("launched", bars="running"),
        Collected: _result(bars="running", sets="collected"),
        SectionWritten: _result("collected"),
        Reported: _result("collected", sets="reported"),
        CopyKept: Step("acting:finish"),
        Finish: Step("acting:finish collected", bars="running", clears="acting", sets="finished"),
        AttemptEvent: Step("launched"),
        ModelAvailable: _ASIDE,
        ModelUnavailable: _ASIDE,
        Consult: Step(bars="consulting", sets="consulting"),
        Consulted: Step("consulting", clears="consulting"),
        ViewShrunk: Step("consulting"),
        CallRejected: Step("consulting"),
        LlmReserved: Step(bars="calling", sets="calling"),
        LlmRetried: Step("calling"),
        LlmSettled: Step("calling", clears="calling"),
        LlmFailed: Step("calling", clears="calling"),
    },
)
