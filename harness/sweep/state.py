"""A sweep as its journal `sweep.jsonl` tells it: everything that can stand there (`SWEEP`, one class per kind
of entry, each with which may come before it), and the state, a pure fold of the entries.

`SweepState` is the one thing that the scheduler, the display and the command line look at. One process owns a
sweep at a time: whoever holds the lock on the journal. What is decided goes through `Sweep.record`, which is
durable before it returns.
"""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from harness.journal import Clock, Entry, Fold, Recorded
from harness.journal.events import (
    VERSION,
    Detached,
    Finish,
    Held,
    JournalRepaired,
    LetGo,
    Owner,
    StopAsked,
)
from harness.journal.order import Event, Order, Step
from harness.outcome import COUNTING, Verdict
from harness.results.comparing.types import Goal
from harness.sweep.plan import NOT_PLANNED, SweepFolder, SweepPlan, SweepRun


class SweepCreated(Event, kind="sweep_created", sets="begun"):
    """The plan is fixed; the budget runs from now."""

    sweep_id: str
    plan: SweepPlan
    version: int = VERSION


class CanaryPassed(Event, kind="checked", sets="checked"):
    """The first run, or a short one before it, has shown that the rest may start. `by`: what showed it."""

    by: str


class RunStarted(Event, kind="started", bars="over:{event.run}", sets="running:{event.run}"):
    """A job for this run is about to be started. `job`: its number, from 1; `jobs_without_progress`: how many
    in a row brought the run no further; `entries`: of its journal until now."""

    run: str
    job: int
    lease_id: str
    jobs_without_progress: int = 0
    entries: int = 0


class RunAsks(Event, kind="run_asks", needs="running:{event.run}"):
    """The run has given its slot back until a person answers. `number`: of the entry of its journal that
    asks; `alike`: the same for all runs that ask the same; `text`, `options`: of the question."""

    run: str
    number: int
    alike: str
    text: str
    options: tuple[str, ...] = ()


class RunGoesOn(Event, kind="run_goes_on", needs="running:{event.run}"):
    """A person has answered the run, or the time for it is over: it goes on as soon as it has a slot."""

    run: str


class RunEnded(
    Event, kind="ended", needs="running:{event.run}", clears="running:{event.run}", sets="over:{event.run}"
):
    """The run is over; nothing of it is started any more. `outcome`: as in its finish.flag, or "lost"."""

    run: str
    outcome: str
    reason: str


class MetricNamed(Event, kind="metric"):
    """The metric that the runs are compared by, found in the first run that ended; which way is better.
    `why`: how it was chosen, where neither plan nor purpose names it."""

    metric: str
    goal: Goal | None = None
    why: str = ""


class RunMeasured(Event, kind="measured", needs="over:{event.run}"):
    """The metric at the end of the run."""

    run: str
    value: float | None


class RunLeftOut(Event, kind="not_run", bars="running:{event.run} over:{event.run}", sets="over:{event.run}"):
    """The run will never be started."""

    run: str
    reason: str


class Closing(Event, kind="closing"):
    """No run is started any more; those that run go on. `budget`: because the budget is used up."""

    reason: str
    budget: bool = False


class Drifted(Event, kind="drifted"):
    """What the runs shared and what had changed when the last one ended."""

    changed: tuple[str, ...]


class Narrated(Event, kind="narrated"):
    """What a language model wrote for the report."""

    sections: Mapping[str, Any] = field(default_factory=dict)


class SweepReported(Event, kind="reported", bars="running"):
    """The report is there. `error`: why it could not be built, "" where it could."""

    headline: tuple[str, ...] = ()
    error: str = ""


_KINDS: tuple[type[Event], ...] = (
    *(SweepCreated, Owner, JournalRepaired, StopAsked, LetGo, Detached, Held, Finish),
    *(CanaryPassed, RunStarted, RunAsks, RunGoesOn, RunEnded, MetricNamed, RunMeasured),
    *(RunLeftOut, Closing, Drifted, Narrated, SweepReported),
)
SWEEP = Order(SweepCreated, _KINDS, {Finish: Step(bars="running", sets="finished")})


Status = Literal["queued", "running", "ended", "not_run"]


@dataclass(frozen=True)
class SharedQuestion:
    """What runs of the sweep ask a person alike. `asked`: by run, the number of the entry that asks."""

    text: str
    options: tuple[str, ...]
    asked: Mapping[str, int]


@dataclass(frozen=True)
class RunState:
    """One run of the sweep. `job`: the running or last one's number, 0 before. `outcome`: as in its
    finish.flag, or "lost" when no job could carry it to an end. `value`: the metric at its end, None where
    nothing is known. `asks`: what it waits for, by `RunAsks.alike`. `idle_since`: it has no slot because a
    person was asked; `idle_s`: how long it had none before. Times are epoch seconds."""

    run: SweepRun
    status: Status = "queued"
    job: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    jobs_without_progress: int = 0
    entries: int = 0
    outcome: str = ""
    reason: str = ""
    value: float | None = None
    asks: str = ""
    idle_since: float | None = None
    idle_s: float = 0.0

    @property
    def name(self) -> str:
        return self.run.name

    @property
    def is_canary(self) -> bool:
        return self.run.is_canary

    def took_s(self, now: float) -> float | None:
        """Seconds since its start, or that it took, without those for which a person was asked."""
        if self.started_at is None:
            return None
        end = next(time for time in (self.idle_since, self.ended_at, now) if time is not None)
        return end - self.started_at - self.idle_s


@dataclass(frozen=True)
class SweepState:
    """Everything known from the journal; the default value is a sweep that does not exist yet.

    `runs`: by name, in the order in which they are started, a canary first. `checked`: the rest may start.
    `questions`: to a person, by `RunAsks.alike`, the answered ones among them.
    `metric`, `goal`: what the runs are compared by, the plan's, else as the first run that ended named it,
    with `metric_why` it was chosen where nobody did;
    `has_metric`: such a run has it. `closing`: why no run is started any more, "".
    """

    sweep_id: str = ""
    name: str = ""
    created_at: float = 0.0
    plan: SweepPlan = NOT_PLANNED
    runs: Mapping[str, RunState] = field(default_factory=dict)
    metric: str = ""
    goal: Goal | None = None
    metric_why: str = ""
    questions: Mapping[str, SharedQuestion] = field(default_factory=dict)
    has_metric: bool = False
    checked: bool = False
    closing: str = ""
    is_out_of_budget: bool = False
    held: str = ""
    stop_asked: str | None = None
    drifted: tuple[str, ...] | None = None
    narrative: Mapping[str, Any] = field(default_factory=dict)
    reported: SweepReported | None = None
    verdict: Verdict | None = None
    finished_at: float | None = None

    @property
    def deadline_at(self) -> float | None:
        """When the budget is used up, in epoch seconds; None without one."""
        return None if self.plan.budget_s is None else self.created_at + self.plan.budget_s

    def of(self, status: Status) -> tuple[RunState, ...]:
        """The runs with this status."""
        return tuple(run for run in self.runs.values() if run.status == status)

    @property
    def compared(self) -> tuple[RunState, ...]:
        """The runs that count: all but the canary."""
        return tuple(run for run in self.runs.values() if not run.is_canary)

    @property
    def waiting(self) -> tuple[RunState, ...]:
        """The runs that wait for a person."""
        return tuple(run for run in self.of("running") if run.asks)

    @property
    def holding_slots(self) -> tuple[RunState, ...]:
        return tuple(run for run in self.of("running") if not run.asks)

    @property
    def phase(self) -> str:
        """What the sweep is at, for people."""
        if self.verdict is not None:
            return self.verdict.outcome.value
        if self.stop_asked:
            return "stopping"
        if self.held:
            return f"waits, {self.held}"
        if self.waiting and not self.holding_slots and not (self.checked and self.of("queued")):
            return "waits for your answer"
        if not self.checked:
            return "canary"
        if self.of("queued") and not self.closing:
            return "running"
        return "last runs" if self.of("running") else "report"


def usual_s(runs: Iterable[RunState]) -> float | None:
    """Seconds that a run takes, the median of those that count; None before there is one."""
    took = [run.took_s(run.ended_at) for run in runs if run.ended_at is not None and run.outcome in COUNTING]
    known = [seconds for seconds in took if seconds is not None]
    return statistics.median(known) if known else None


def _created(state: SweepState, event: SweepCreated, entry: Entry) -> SweepState:
    plan = event.plan
    runs = {run.name: RunState(run) for run in plan.all_runs}
    return SweepState(event.sweep_id, plan.name, entry.time, plan, runs, plan.metric, plan.goal)


def _changed(state: SweepState, run: str, **changes: Any) -> SweepState:
    return replace(state, runs={**state.runs, run: replace(state.runs[run], **changes)})


def _asks(state: SweepState, event: RunAsks, entry: Entry) -> SweepState:
    before = state.questions.get(event.alike, SharedQuestion(event.text, event.options, {}))
    question = replace(before, asked={**before.asked, event.run: event.number})
    state = replace(state, questions={**state.questions, event.alike: question})
    return _changed(state, event.run, asks=event.alike, idle_since=entry.time)


def _not_idle(run: RunState, now: float) -> dict[str, Any]:
    """What changes of a run that goes on, or ends, after a person was asked."""
    idle_s = run.idle_s + (now - run.idle_since if run.idle_since is not None else 0.0)
    return {"asks": "", "idle_since": None, "idle_s": idle_s}


def _started(state: SweepState, event: RunStarted, entry: Entry) -> SweepState:
    return _changed(
        state,
        event.run,
        **_not_idle(state.runs[event.run], entry.time),
        status="running",
        job=event.job,
        started_at=state.runs[event.run].started_at or entry.time,
        jobs_without_progress=event.jobs_without_progress,
        entries=event.entries,
    )


def _ended(state: SweepState, event: RunEnded, entry: Entry) -> SweepState:
    ended = {"status": "ended", "ended_at": entry.time, "outcome": event.outcome, "reason": event.reason}
    return _changed(state, event.run, **_not_idle(state.runs[event.run], entry.time), **ended)


def _finish(state: SweepState, event: Finish, entry: Entry) -> SweepState:
    return replace(state, verdict=Verdict(event.outcome, event.reason), finished_at=entry.time)


FOLD: Fold[SweepState] = Fold(
    SweepState(),
    {
        SweepCreated: _created,
        CanaryPassed: lambda state, event, _: replace(state, checked=True),
        RunStarted: _started,
        RunAsks: _asks,
        RunGoesOn: lambda state, event, _: _changed(state, event.run, asks=""),
        RunEnded: _ended,
        MetricNamed: lambda state, event, _: replace(
            state, metric=event.metric, goal=event.goal, metric_why=event.why, has_metric=True
        ),
        RunMeasured: lambda state, event, _: _changed(state, event.run, value=event.value),
        RunLeftOut: lambda state, event, _: _changed(state, event.run, status="not_run", reason=event.reason),
        Held: lambda state, event, _: replace(state, held=event.reason),
        Closing: lambda state, event, _: replace(state, closing=event.reason, is_out_of_budget=event.budget),
        StopAsked: lambda state, event, _: replace(state, stop_asked=event.by),
        Drifted: lambda state, event, _: replace(state, drifted=event.changed),
        Narrated: lambda state, event, _: replace(state, narrative=event.sections),
        SweepReported: lambda state, event, _: replace(state, reported=event),
        Finish: _finish,
    },
)
fold = FOLD.fold


class Sweep(Recorded[SweepState]):
    """One sweep's folder, owned by this process until `close`."""

    FILE, ORDER, FOLD = "sweep.jsonl", SWEEP, FOLD

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        """Own the folder's journal. Raises JournalOwnedError, JournalDamagedError."""
        super().__init__(folder, clock)
        self.folder = SweepFolder(folder)

    @property
    def plan(self) -> SweepPlan:
        """The plan as it was fixed before the first run."""
        return self.state.plan


def load_state(folder: Path) -> SweepState:
    """The state of the sweep in this folder, read without owning it."""
    return Sweep.load_state(folder)
