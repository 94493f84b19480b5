"""The state of a sweep: a pure fold of its journal, `sweep.jsonl`.

In: entries. Out: `SweepState`, the one thing that the scheduler, the display and the command line look at.
Nothing here touches the disk.

| entry | data | meaning |
|---|---|---|
| `sweep_created` | sweep_id, plan | the plan is fixed; the budget runs from now |
| `owner` | pid, host | a process took the sweep over |
| `checked` | | the canary has passed: the rest may start |
| `started` | run, job, lease_id, jobs_without_progress, entries | the intent to start this job |
| `ended` | run, outcome, reason | the run is over; nothing of it is started any more |
| `measured` | run, value | the metric at its end |
| `not_run` | run, reason | the run will never be started |
| `stop_asked` | by | a person wants the sweep to end |
| `held` | reason | nothing is started for now; "" when that is over |
| `closing` | reason, budget | no run is started any more; those that run go on to their own deadlines |
| `drifted` | changed | what the runs shared and what was another when the last one had ended |
| `narrated` | sections | what a language model wrote for the report |
| `reported` | headline, error | the report is there |
| `finish` | outcome, reason | the end |
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from harness.journal import Entry
from harness.state import COUNTING, Outcome, Verdict
from harness.sweep.folder import CANARY
from harness.sweep.plan import SweepPlan, SweepRun

Status = Literal["queued", "running", "ended", "not_run"]


@dataclass(frozen=True)
class RunState:
    """One run of the sweep. `jobs`: how many were started; `job`: the running or last one's number, 0 before.
    `outcome`: as in its finish.flag, or "lost" when no job could carry it to an end. `value`: the metric at
    its end, None where nothing is known. Times are epoch seconds."""

    run: SweepRun
    status: Status = "queued"
    job: int = 0
    lease_id: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    jobs_without_progress: int = 0
    entries: int = 0
    outcome: str = ""
    reason: str = ""
    value: float | None = None


@dataclass(frozen=True)
class SweepState:
    """Everything known from the journal; the default value is a sweep that does not exist yet.

    `runs`: by name, in the order in which they are started. `canary`: the short run before them, None where
    the first run is watched instead. `checked`: the rest may start. `closing`: why no run is started any
    more, "".
    """

    sweep_id: str = ""
    name: str = ""
    created_at: float = 0.0
    plan: SweepPlan | None = None
    runs: Mapping[str, RunState] = field(default_factory=dict)
    canary: RunState | None = None
    checked: bool = False
    closing: str = ""
    is_out_of_budget: bool = False
    held: str = ""
    stop_asked: str | None = None
    drifted: tuple[str, ...] | None = None
    narrative: Mapping[str, Any] = field(default_factory=dict)
    reported: Mapping[str, Any] | None = None
    verdict: Verdict | None = None
    finished_at: float | None = None

    @property
    def deadline_at(self) -> float | None:
        """When the budget is used up, in epoch seconds; None without one."""
        if self.plan is None or self.plan.budget_s is None:
            return None
        return self.created_at + self.plan.budget_s

    def of(self, status: Status) -> tuple[RunState, ...]:
        """The runs with this status, the canary not among them."""
        return tuple(run for run in self.runs.values() if run.status == status)

    @property
    def all_runs(self) -> tuple[RunState, ...]:
        """The canary, if there is one, and all runs."""
        return (*((self.canary,) if self.canary is not None else ()), *self.runs.values())

    def find(self, run: str) -> RunState:
        return self.canary if run == CANARY and self.canary is not None else self.runs[run]

    @property
    def phase(self) -> str:
        """What the sweep is at, for people."""
        if self.verdict is not None:
            return self.verdict.outcome.value
        if self.stop_asked:
            return "stopping"
        if self.held:
            return f"waits, {self.held}"
        if not self.checked:
            return "canary"
        if self.of("queued") and not self.closing:
            return "running"
        return "last runs" if self.of("running") else "report"


def usual_s(runs: Iterable[RunState]) -> float | None:
    """Seconds that a run takes, the median of those that count; None before there is one."""
    took = [
        run.ended_at - run.started_at
        for run in runs
        if run.started_at is not None and run.ended_at is not None and run.outcome in COUNTING
    ]
    return statistics.median(took) if took else None


def fold(entries: Iterable[Entry]) -> SweepState:
    """The state after all entries."""
    state = SweepState()
    for entry in entries:
        state = apply(state, entry)
    return state


def apply(state: SweepState, entry: Entry) -> SweepState:
    """The state after one more entry; entries of unknown kinds change nothing."""
    handle = _ENTRIES.get(entry.kind)
    return handle(state, entry) if handle else state


def _created(state: SweepState, entry: Entry) -> SweepState:
    plan = SweepPlan.from_json(entry.data["plan"])
    canary = SweepRun(CANARY, plan.runs[0].point, plan.runs[0].seed) if plan.canary else None
    return replace(
        state,
        sweep_id=entry.data["sweep_id"],
        name=plan.name,
        created_at=entry.time,
        plan=plan,
        runs={run.name: RunState(run) for run in plan.runs},
        canary=RunState(canary) if canary is not None else None,
    )


def _changed(state: SweepState, run: str, **changes: Any) -> SweepState:
    if run == CANARY and state.canary is not None:
        return replace(state, canary=replace(state.canary, **changes))
    return replace(state, runs={**state.runs, run: replace(state.runs[run], **changes)})


def _started(state: SweepState, entry: Entry) -> SweepState:
    before = state.find(entry.data["run"])
    return _changed(
        state,
        entry.data["run"],
        status="running",
        job=entry.data["job"],
        lease_id=entry.data["lease_id"],
        started_at=before.started_at or entry.time,
        jobs_without_progress=entry.data.get("jobs_without_progress", 0),
        entries=entry.data.get("entries", 0),
    )


def _ended(state: SweepState, entry: Entry) -> SweepState:
    data = entry.data
    return _changed(
        state,
        data["run"],
        status="ended",
        ended_at=entry.time,
        outcome=data["outcome"],
        reason=data["reason"],
    )


def _finish(state: SweepState, entry: Entry) -> SweepState:
    verdict = Verdict(Outcome(entry.data["outcome"]), entry.data["reason"])
    return replace(state, verdict=verdict, finished_at=entry.time)


_ENTRIES: dict[str, Callable[[SweepState, Entry], SweepState]] = {
    "sweep_created": _created,
    "checked": lambda state, entry: replace(state, checked=True),
    "started": _started,
    "ended": _ended,
    "measured": lambda state, entry: _changed(state, entry.data["run"], value=entry.data["value"]),
    "not_run": lambda state, entry: _changed(
        state, entry.data["run"], status="not_run", reason=entry.data["reason"]
    ),
    "held": lambda state, entry: replace(state, held=entry.data["reason"]),
    "closing": lambda state, entry: replace(
        state, closing=entry.data["reason"], is_out_of_budget=entry.data.get("budget", False)
    ),
    "stop_asked": lambda state, entry: replace(state, stop_asked=entry.data["by"]),
    "drifted": lambda state, entry: replace(state, drifted=tuple(entry.data["changed"])),
    "narrated": lambda state, entry: replace(state, narrative=entry.data["sections"]),
    "reported": lambda state, entry: replace(state, reported=entry.data),
    "finish": _finish,
}
