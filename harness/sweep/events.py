"""Everything that can stand in a sweep's journal (`SWEEP`): one class per kind of entry, each with which may
come before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

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
from harness.results.comparing.types import Goal
from harness.sweep.plan import SweepPlan


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


_SHARED = (Owner, JournalRepaired, StopAsked, LetGo, Detached, Held, Finish)
_OWN = (
    *(CanaryPassed, RunStarted, RunAsks, RunGoesOn, RunEnded),
    *(MetricNamed, RunMeasured, RunLeftOut, Closing, Drifted),
    Narrated,
)
SWEEP = Order(
    SweepCreated,
    (SweepCreated, *_SHARED, *_OWN, SweepReported),
    {Finish: Step(bars="running", sets="finished")},
)
