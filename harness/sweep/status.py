"""How a sweep stands while it runs: runs by state, each point's mean so far, the best of them, the time left,
and the words for all of it.

In: a `SweepState`, the time, and where the running runs are. Out: `SweepStatus`, which the live display,
`harness show` and `harness ls --tree` draw. Nothing here is a finding: those need the comparison at the end.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from harness.config import same_value
from harness.results.comparing.types import Goal
from harness.results.text import clean
from harness.state import COUNTING
from harness.sweep.plan import SweepPlan
from harness.sweep.run_files import Progress
from harness.sweep.state import RunState, SweepState
from harness.wording import number_text, point_label, short_labels

LEAST_SHARE = 0.05  # of its steps that a run must have made before its own speed tells when it will end

Stage = Literal["queued", "running", "done", "failed", "cancelled"]
GLYPHS: Mapping[Stage, str] = {"queued": "·", "running": "▸", "done": "✓", "failed": "✗", "cancelled": "–"}
WORDS: Mapping[Stage, str] = {**{stage: stage for stage in GLYPHS}, "cancelled": "not run"}


@lru_cache(maxsize=4096)
def one_line(text: str) -> str:
    """Text from outside on one line, without secrets and control characters."""
    return " ".join(clean(text).split())


def number_text_of(value: float) -> str:
    """A metric's value: three decimals where it may be a rate, else four digits."""
    return number_text(value, "rate" if 0.001 <= abs(value) <= 1 or value == 0 else "number")


@dataclass(frozen=True)
class RunStatus:
    """One run. `value`: its metric at the end, where the run counts. `took_s`: seconds since its start, or
    that it took."""

    run: RunState
    stage: Stage
    progress: Progress
    took_s: float | None

    @property
    def name(self) -> str:
        return self.run.run.name

    @property
    def value(self) -> float | None:
        return self.run.value if self.stage == "done" else None

    @property
    def step(self) -> str:
        """`120/240`; `starting` before the first."""
        step, total = self.progress.step, self.progress.total
        return "starting" if step is None else f"{step}/{total}" if total else f"step {step}"

    @property
    def outcome(self) -> str:
        """How the run ended, in words."""
        return one_line(self.run.outcome).replace("_", " ")

    @property
    def cell(self) -> str:
        """The run in a few characters: a sign for its state, and how far it is or what it came to."""
        number = number_text_of(self.value) if self.value is not None else "no value"
        more = {"running": self.step, "done": number, "failed": self.outcome}.get(self.stage, "")
        return f"{GLYPHS[self.stage]} {more}".rstrip()


@dataclass(frozen=True)
class PointStatus:
    """One point over its seeds. `label`: what differs from the baseline."""

    name: str
    label: str
    runs: tuple[RunStatus, ...]

    @cached_property
    def values(self) -> list[float]:
        """Of the runs that count so far."""
        return [run.value for run in self.runs if run.value is not None]

    @cached_property
    def mean(self) -> float | None:
        return statistics.fmean(self.values) if self.values else None

    def has(self, stage: Stage) -> bool:
        return any(run.stage == stage for run in self.runs)

    @property
    def mean_so_far(self) -> str:
        """`0.872 (2 of 3 seeds)`; a mean of one run says so, whatever is planned."""
        if self.mean is None:
            return "–"
        n, planned = len(self.values), len(self.runs)
        seeds = "one seed" if n == 1 else f"{n} of {planned} seeds" if n < planned else f"{planned} seeds"
        return f"{number_text_of(self.mean)} ({seeds})"


@dataclass(frozen=True)
class SweepStatus:
    """The whole sweep at one moment; times in seconds, None where nothing is known.

    `left_s`: estimated from the runs that have ended, or from how fast those run that do; `budget_left_s`
    may be negative.
    """

    name: str
    phase: str
    metric: str
    goal: Goal
    canary: RunStatus | None
    points: tuple[PointStatus, ...]
    parallel: int
    elapsed_s: float
    left_s: float | None
    budget_s: float | None
    budget_left_s: float | None

    @cached_property
    def runs(self) -> tuple[RunStatus, ...]:
        return tuple(run for point in self.points for run in point.runs)

    @cached_property
    def ranked(self) -> list[PointStatus]:
        """The points that have a mean, the best first."""
        known = [point for point in self.points if point.mean is not None]
        return sorted(known, key=lambda point: point.mean or 0.0, reverse=self.goal == "max")

    @property
    def best(self) -> PointStatus | None:
        return next(iter(self.ranked), None)

    @cached_property
    def counts(self) -> Mapping[Stage, int]:
        """How many runs are where, the canary not among them."""
        return Counter(run.stage for run in self.runs)

    @property
    def counted(self) -> list[tuple[Stage, str]]:
        """`12 of 180 runs done`, `4 running`, `2 failed`, `162 queued`; what is none is left out."""
        counts = self.counts
        others: tuple[Stage, ...] = ("running", "failed", "queued", "cancelled")
        words = [(stage, f"{counts[stage]} {WORDS[stage]}") for stage in others if counts[stage]]
        return [("done", f"{counts['done']} of {len(self.runs)} runs done"), *words]

    @property
    def tally(self) -> str:
        """`counted` as one text."""
        return ", ".join(words for _, words in self.counted)

    @property
    def best_so_far(self) -> str:
        """The best point with its mean; "" before any run has ended with a value."""
        if self.best is None:
            return ""
        metric = one_line(self.metric) or "pass rate or reward"
        return f"{self.best.mean_so_far}  {one_line(self.best.label)}  {metric}"


def status(state: SweepState, now: float, steps_of: Callable[[str], Progress]) -> SweepStatus:
    """The sweep as it stands at `now` (epoch seconds); `steps_of` is only asked for runs that run."""
    plan = state.plan
    assert plan is not None
    runs = {run.run.name: _run(run, now, steps_of) for run in state.all_runs}
    label = labels(plan)
    members: dict[str, list[RunStatus]] = {point.name: [] for point in plan.points}
    for run in plan.runs:
        members[run.point].append(runs[run.name])
    points = tuple(PointStatus(name, label[name], tuple(found)) for name, found in members.items())
    ended = state.finished_at
    left = state.deadline_at - now if state.deadline_at is not None and ended is None else None
    return SweepStatus(
        name=state.name,
        phase=state.phase,
        metric=plan.metric,
        goal=plan.goal,
        canary=runs[state.canary.run.name] if state.canary is not None else None,
        points=points,
        parallel=plan.parallel,
        elapsed_s=(ended or now) - state.created_at,
        left_s=_left([runs[run.name] for run in plan.runs], plan.parallel, left) if ended is None else None,
        budget_s=plan.budget_s,
        budget_left_s=left,
    )


def labels(plan: SweepPlan) -> dict[str, str]:
    """For each point's name what differs from the baseline, in few words."""
    short = short_labels(key.name for key in plan.keys)
    own = {key.name: key.baseline for key in plan.keys}
    return {
        point.name: point_label(
            {key: level for key, level in point.levels.items() if not same_value(level, own[key])}, short
        )
        for point in plan.points
    }


def _run(run: RunState, now: float, steps_of: Callable[[str], Progress]) -> RunStatus:
    is_running = run.status == "running"
    end = now if is_running else run.ended_at
    took = end - run.started_at if run.started_at is not None and end is not None else None
    return RunStatus(run, _stage(run), steps_of(run.run.name) if is_running else Progress(), took)


def _stage(run: RunState) -> Stage:
    if run.status == "queued" or run.status == "running":
        return run.status
    if run.status == "not_run" or run.outcome == "cancelled":
        return "cancelled"
    return "done" if run.outcome in COUNTING else "failed"


def _left(runs: Iterable[RunStatus], slots: int, budget_left_s: float | None) -> float | None:
    """Seconds until the last run ends, as if all took as long as is usual; None before anything tells."""
    runs = list(runs)
    running = [run for run in runs if run.stage == "running"]
    queued = sum(run.stage == "queued" for run in runs)
    paces = {run.name: pace for run in running if (pace := _pace(run)) is not None}
    took = [run.took_s for run in runs if run.stage == "done" and run.took_s is not None]
    known = took or list(paces.values())
    if not known or not (running or queued):
        return None
    usual = statistics.median(known)
    rests = [max(0.0, paces.get(run.name, usual) - (run.took_s or 0.0)) for run in running]
    in_turn = (sum(rests) + queued * usual) / max(1, min(slots, len(running) + queued))
    left = max([in_turn, *rests, *([usual] if queued else [])])
    return left if budget_left_s is None else min(left, max(0.0, budget_left_s))


def _pace(run: RunStatus) -> float | None:
    """Seconds that the whole run takes, by its own speed; None while it has made too few steps."""
    step, total = run.progress.step, run.progress.total
    if not step or not total or run.took_s is None or step < LEAST_SHARE * total:
        return None
    return run.took_s * total / step
