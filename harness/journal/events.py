"""What can stand in a run's journal (`RUN`): one class per kind of entry, each with which may come before it;
those of the model are in `model_events`."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any

from harness.attempt import UNKNOWN, AttemptEnd, Diagnosis
from harness.blueprint.types import Blueprint
from harness.journal import model_events
from harness.journal.order import Event, Order, Step
from harness.options import RunOptions
from harness.outcome import Outcome
from harness.pending_changes import Change
from monitors.files import SupervisorInfo
from monitors.processes import boot_id, steady_time, uptime

VERSION = 2
"""Of the journal's format; a journal of another version is refused."""
Args = Mapping[str, Any]
"""Arguments of an action as JSON values; `harness.actions` says what each action has."""

# --- the run as a whole ---------------------------------------------------------------------------------


class Created(Event, kind="created", sets="begun"):
    """The run begins. `policy`: who decides; `deadline_at`: when its time is used up. `folder`, `inode`,
    `host`: where; by them a copy is told from the run itself."""

    experiment_id: str
    name: str
    deadline_at: float
    policy: str
    blueprint: Blueprint
    version: int = VERSION
    folder: str = ""
    inode: int = 0
    host: str = ""


class OptionsGiven(Event, kind="options"):
    """What a person chose for this run, at its start or when resuming it."""

    options: RunOptions


class Owner(Event, kind="owner", clears="acting calling"):
    """A process took the journal over; what the one before had begun and not ended is done once more.

    `boot_id`: of its machine; `booted_at`: when that was, as the journal counts time (see `clock_of`).
    """

    pid: int
    host: str
    boot_id: str = ""
    booted_at: float = 0.0

    @classmethod
    def this_process(cls, clock: Callable[[], float] = steady_time) -> Owner:
        return cls(os.getpid(), socket.gethostname(), boot_id(), clock() - uptime())


class JournalRepaired(Event, kind="journal_repaired"):
    """A line that a loss of power had cut was taken out of the journal; it never took effect."""

    torn: str


class LetGo(Event, kind="let_go"):
    """The owner went away on purpose; trainings go on. `status`: its exit status."""

    status: int = 0
    hands_over: bool = False


class Detached(Event, kind="detached"):
    """The next owner runs in this tmux session."""

    session: str


class Held(Event, kind="held", clears="acting calling"):
    """Nothing is begun for now, since a disk or a folder cannot be used; what had begun is done once more.
    `reason` is "" when that is over."""

    reason: str


class StopAsked(Event, kind="stop_asked"):
    """A person wants an end. `by`: who, or with which command."""

    by: str


class CopyKept(Event, kind="copy_kept", needs="acting:finish"):
    """Something that the training wrote into the private copy of its code was left there."""

    folder: str


class Finish(
    Event, kind="finish", needs="acting:finish collected", bars="running", clears="acting", sets="finished"
):
    """The end; nothing follows it."""

    outcome: Outcome
    reason: str


# --- decisions ------------------------------------------------------------------------------------------


class Intent(Event, kind="intent", bars="acting calling", sets="acting:{event.action}"):
    """An action is about to be carried out. `observed`: what the policy saw beside the state."""

    action: str
    args: Args = field(default_factory=dict)
    observed: Mapping[str, Any] = field(default_factory=dict)


class Refused(Event, kind="refused", bars="acting calling", clears="asking"):
    """An action that the rules, or a person, did not let through."""

    action: str
    args: Args
    why: str
    observed: Mapping[str, Any] = field(default_factory=dict)


class ActionFailed(Event, kind="action_failed", needs="acting:{event.action}", clears="acting"):
    """Carrying the action out raised an error; the run ends here until it is resumed."""

    action: str
    error: str


class ApprovalAsked(Event, kind="approval_asked", bars="acting calling", sets="asking"):
    """A person is asked whether this may be done; `shown`: what it would change, as a diff."""

    action: str
    args: Args
    shown: str = ""


class Approved(Event, kind="approved", needs="asking", clears="asking"):
    """A person said yes. `args`: to these arguments instead, None for those that were asked about."""

    action: str
    by: str
    args: Args | None = None
    waited_s: float = 0.0


class Denied(Event, kind="denied", needs="asking", clears="asking"):
    """A person said no, or nobody answered in time. `waited_s`: how long nothing ran for it."""

    action: str
    args: Args
    by: str
    because: str = ""
    waited_s: float = 0.0


class PersonAnswered(Event, kind="person_answered", bars="acting calling"):
    """The answer to a question, `number` the entry that asked: yes, no or an option. `by`: who, or why it is
    the default; `changes`: what is allowed for the next launch; `waited_s`: how long nothing ran for it."""

    number: int
    question: str
    answer: str
    by: str
    because: str = ""
    changes: tuple[Change, ...] = ()
    waited_s: float = 0.0

    @property
    def text(self) -> str:
        """The answer in one line."""
        allowed = "".join(f"; {change.text}" for change in self.changes)
        because = f"; {self.because}" if self.because else ""
        return f"{self.answer} ({self.by}){allowed}{because}, to: {self.question}"


class PersonSaid(Event, kind="person_said", bars="acting calling"):
    """A word of a person to the running agent."""

    text: str
    by: str


# --- what came of an action -----------------------------------------------------------------------------


class ActionResult(Event, needs="acting:{event.action}", clears="acting"):
    """What an action led to, which closes its intent. Every subclass has `action`, as the intent named it: of
    its own, or a field where several actions lead to it."""

    def __init_subclass__(cls, kind: str = "", action: str = "", **marks: str) -> None:
        super().__init_subclass__(kind, **marks)
        if action:
            setattr(cls, "action", action)  # noqa: B010, a checker would take it for a field


class Looked(ActionResult, kind="looked"):
    """An action that only looks. `text`: what it showed; `error`: why there was nothing."""

    action: str
    text: str = ""
    error: str = ""


class ChangePrepared(ActionResult, kind="change_prepared", bars="running"):
    """An action that changes the next launch. `error`: why it changed nothing."""

    action: str
    changes: tuple[Change, ...] = ()
    text: str = ""
    error: str = ""


class Prepared(ActionResult, kind="prepared", action="prepare"):
    """Provenance is written."""


class Checked(ActionResult, kind="checked", action="check", bars="running"):
    """The check of the next launch. `problems`, `warnings`: sentences. `causes`: for each problem what a
    diagnosis would say of the failure that it would become."""

    can_run: bool
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    causes: tuple[Diagnosis, ...] = ()


class SmokeRan(ActionResult, kind="smoke_ran", action="smoke_run", bars="running collected"):
    """What is prepared ran for a moment. `failed`: it ended by itself before it had shown its steps; `steps`:
    how many rows there were; `status`: its exit status, None where it was ended; `log`: its last lines where
    it failed; `error`: why it could not be tried; `left`: files that it wrote into the folder of the code,
    where the launch finds them; `whole_s`: how long all of it takes at its pace, None where not known;
    `cause`: why it failed, where it was that of the first launch."""

    failed: bool
    steps: int = 0
    took_s: float = 0.0
    status: int | None = None
    log: str = ""
    error: str = ""
    left: tuple[str, ...] = ()
    whole_s: float | None = None
    cause: Diagnosis | None = None

    @property
    def is_sure(self) -> bool:
        """True if the launch would surely fail of the same."""
        known = self.cause is not None and self.cause.family != UNKNOWN
        return known and self.cause is not None and self.cause.is_sure and not self.cause.transient

    @property
    def fix(self) -> str:
        """The first thing that a person can do about it."""
        return self.cause.what_to_do[0].sentence if self.cause and self.cause.what_to_do else ""

    @property
    def text(self) -> str:
        """What it came to, in words."""
        left = f"; it left in the folder of the code: {', '.join(self.left)}" if self.left else ""
        if self.failed:
            return f"it failed after {self.took_s:g} s with exit status {self.status}{left}\n{self.log}"
        seen = f"{self.steps} metric rows" if self.steps else "no metric row yet, and no failure"
        takes = f"; all of it would take about {self.whole_s:g} s" if self.whole_s is not None else ""
        return f"it ran: {seen} within {self.took_s:g} s{takes}{left}"


class Launched(
    ActionResult, kind="launched", action="launch", bars="running collected", sets="running launched"
):
    """The attempt runs. `checkpoint`: what it goes on from, None for the beginning. `differs`: what it was
    given otherwise than the attempt before, and by no repair. `sandbox`: of code that a model changed, as
    `repair.containment` names it; "" for the author's own."""

    launched_at: float
    command: str = ""
    checkpoint: str | None = None
    differs: tuple[Change, ...] = ()
    sandbox: str = ""


class Waited(ActionResult, kind="waited", action="wait", needs="running"):
    """Something happened while the attempt ran, or a question was `answered`, or `not_answered` before
    something else wanted attention. `ended`: the attempt's end, None while it goes on."""

    reason: str
    detail: str = ""
    waited_s: float = 0.0
    ended: AttemptEnd | None = None

    def now(self) -> Step:
        step = super().now()
        if self.reason in ("answered", "not_answered"):
            return replace(step, needs="acting:wait")
        return step if self.ended is None else replace(step, clears="acting running")


class Paused(ActionResult, kind="paused", action="pause"):
    """Time passed before the next launch. `reason`: why it was cut short, "" where it was not."""

    paused_s: float = 0.0
    reason: str = ""


class Stopped(ActionResult, kind="stopped", action="stop", needs="running", clears="running"):
    """The attempt was ended. `why`: as in the action, None where it had ended by itself."""

    ended: AttemptEnd
    why: str | None = None
    detail: str = ""


class Diagnosed(ActionResult, kind="diagnosed", action="diagnose", needs="launched", bars="running"):
    """Why the attempt ended, with the repairs that apply."""

    diagnosis: Diagnosis


class CauseNamed(ActionResult, kind="cause_named", action="name_cause", needs="launched", bars="running"):
    """A model has named the cause of the attempt's end. `diagnosis` is None where its answer is discarded;
    `error` says why."""

    diagnosis: Diagnosis | None = None
    error: str = ""


class Noted(ActionResult, kind="noted", action="note"):
    """A remark of the policy."""

    text: str


class PersonAsked(ActionResult, kind="person_asked", action="ask_person", bars="collected"):
    """A question is put to a person, and the run goes on. `changes`: what it is about, `shown` as a diff;
    `until`: when `default` holds; `error`: why it could not be asked."""

    question: str
    options: tuple[str, ...] = ()
    default: str = "no"
    changes: tuple[Change, ...] = ()
    shown: str = ""
    until: float = 0.0
    error: str = ""


class SectionsWritten(ActionResult, kind="sections_written", action="write_sections", needs="collected"):
    """The sections of the narrative, by name; `left_out`: what could not stand."""

    written: Mapping[str, Any]
    left_out: tuple[str, ...] = ()


class NextProposed(ActionResult, kind="next_proposed", action="propose_next", needs="collected"):
    """An experiment that may follow was written. `text`: the command that starts it; `error`: why there is
    none."""

    text: str = ""
    error: str = ""


class Collected(ActionResult, kind="collected", action="collect", bars="running", sets="collected"):
    """How the run is judged, from its raw files."""

    outcome: Outcome
    reason: str


class Reported(ActionResult, kind="reported", action="report", needs="collected", sets="reported"):
    """The report is written. `headline`: its first sentences; `discrepancies`: numbers that were withheld;
    `error`: why it could not be built, "" where it could; `result`: as result.json has it, None where no
    metric leads."""

    headline: tuple[str, ...] = ()
    discrepancies: tuple[Mapping[str, str], ...] = ()
    error: str = ""
    result: Mapping[str, Any] | None = None


# --- what befell a training -----------------------------------------------------------------------------


class SupervisorSeen(Event, kind="supervisor_seen", needs="running"):
    """Who supervises the attempt: from now on that process says whether it lives, whatever files say."""

    attempt: int
    supervisor: SupervisorInfo


class AttemptEvent(Event, kind="event", needs="launched"):
    """Something seen of an attempt. `event`: as monitors name it, or `session_gone`, `log_lost`. `at`: when
    it happened; `step` and `line` of its log, None where they are not known."""

    attempt: int
    event: str
    at: float
    text: str = ""
    step: int | None = None
    line: int | None = None


_KINDS = [
    kind
    for kind in (*vars(model_events).values(), *globals().values())
    if isinstance(kind, type) and issubclass(kind, Event) and "kind" in vars(kind)
]
RUN = Order(Created, _KINDS)
