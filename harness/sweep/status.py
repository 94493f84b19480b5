"""How a sweep stands while it runs: runs by state, each point's mean so far, the best of them, the time left,
and the words for all of it.

In: a `SweepState`, the time, and where the running runs are. Out: `SweepStanding`, which the live display,
`harness show` and `harness ls --tree` draw. Nothing here is a finding: those need the comparison at the end.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from harness.config import same_value
from harness.results.comparing.types import Goal
from harness.results.text import clean
from harness.state import COUNTING
from harness.sweep.plan import SweepPlan
from harness.sweep.state import RunState, SweepState
from harness.sweep.steps import Progress
from harness.wording import number_text, point_label, short_labels

LEAST_SHARE = 0.05  # of its steps that a run must have made before its own speed tells when it will end

Standing = Literal["queued", "running", "done", "failed", "cancelled"]
GLYPHS: Mapping[Standing, str] = {"queued": "·", "running": "▸", "done": "✓", "failed": "✗", "cancelled": "–"}
WORDS: Mapping[Standing, str] = {**{where: where for where in GLYPHS}, "cancelled": "not run"}


@lru_cache(maxsize=4096)
def one_line(text: str) -> str:
    """Text from outside on one line, without secrets and control characters."""
    return " ".join(clean(text).split())


def number_text_of(value: float) -> str:
    """A metric's value: three decimals where it may be a rate, else four digits."""
    return number_text(value, "rate" if 0.001 <= abs(value) <= 1 or value == 0 else "number")


@dataclass(frozen=True)
class RunStanding:
    """One run. `value`: its metric at the end, where the run counts. `took_s`: seconds since its start, or
    that it took."""

    run: RunState
    standing: Standing
    progress: Progress
    value: float | None
    took_s: float | None

    @property
    def name(self) -> str:
        return self.run.run.name

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
        more = {"running": self.step, "done": number, "failed": self.outcome}.get(self.standing, "")
        return f"{GLYPHS[self.standing]} {more}".rstrip()


@dataclass(frozen=True)
class PointStanding:
    """One point over its seeds. `label`: what differs from the baseline. `mean`: of the `n` runs that count
    so far."""

    name: str
    label: str
    runs: tuple[RunStanding, ...]
    mean: float | None
    n: int

    @property
    def is_single_seed(self) -> bool:
        return self.n == 1

    def has(self, standing: Standing) -> bool:
        return any(run.standing == standing for run in self.runs)

    @property
    def mean_so_far(self) -> str:
        """`0.872 (2 of 3 seeds)`; a mean of one run says so, whatever is planned."""
        if self.mean is None:
            return "–"
        planned = len(self.runs)
        seeds = f"{self.n} of {planned} seeds" if self.n < planned else f"{planned} seeds"
        return f"{number_text_of(self.mean)} ({'one seed' if self.is_single_seed else seeds})"


@dataclass(frozen=True)
class SweepStanding:
    """The whole sweep at one moment; times in seconds, None where nothing is known.

    `left_s`: estimated from the runs that have ended, or from how fast those run that do; `budget_left_s`
    may be negative.
    """

    name: str
    phase: str
    metric: str
    goal: Goal
    canary: RunStanding | None
    points: tuple[PointStanding, ...]
    best: PointStanding | None
    parallel: int
    elapsed_s: float
    left_s: float | None
    budget_s: float | None
    budget_left_s: float | None

    @property
    def runs(self) -> tuple[RunStanding, ...]:
        return tuple(run for point in self.points for run in point.runs)

    @property
    def counts(self) -> Mapping[Standing, int]:
        """How many runs are where, the canary not among them."""
        return Counter(run.standing for run in self.runs)

    @property
    def counted(self) -> list[tuple[Standing, str]]:
        """`12 of 180 runs done`, `4 running`, `2 failed`, `162 queued`; what is none is left out."""
        others: tuple[Standing, ...] = ("running", "failed", "queued", "cancelled")
        words = [(where, f"{self.counts[where]} {WORDS[where]}") for where in others if self.counts[where]]
        return [("done", f"{self.counts['done']} of {len(self.runs)} runs done"), *words]

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


def standing(state: SweepState, now: float, steps_of: Callable[[str], Progress]) -> SweepStanding:
    """The sweep as it stands at `now` (epoch seconds); `steps_of` is only asked for runs that run."""
    plan = state.plan
    assert plan is not None
    runs = {name: _run(run, now, steps_of) for name, run in state.runs.items()}
    points = _points(plan, runs)
    ended = state.finished_at
    left = state.deadline_at - now if state.deadline_at is not None and ended is None else None
    return SweepStanding(
        name=state.name,
        phase=state.phase,
        metric=plan.metric,
        goal=plan.goal,
        canary=_run(state.canary, now, steps_of) if state.canary is not None else None,
        points=points,
        best=next(iter(ranked(points, plan.goal)), None),
        parallel=plan.parallel,
        elapsed_s=(ended or now) - state.created_at,
        left_s=_left(tuple(runs.values()), plan.parallel, left) if ended is None else None,
        budget_s=plan.budget_s,
        budget_left_s=left,
    )


def ranked(points: Iterable[PointStanding], goal: Goal) -> list[PointStanding]:
    """The points that have a mean, the best first."""
    known = [point for point in points if point.mean is not None]
    return sorted(known, key=lambda point: point.mean or 0.0, reverse=goal == "max")


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


def _run(run: RunState, now: float, steps_of: Callable[[str], Progress]) -> RunStanding:
    where = _standing(run)
    end = now if run.status == "running" else run.ended_at
    return RunStanding(
        run=run,
        standing=where,
        progress=steps_of(run.run.name) if run.status == "running" else Progress(),
        value=run.value if where == "done" else None,
        took_s=end - run.started_at if run.started_at is not None and end is not None else None,
    )


def _standing(run: RunState) -> Standing:
    if run.status == "queued" or run.status == "running":
        return run.status
    if run.status == "not_run" or run.outcome == "cancelled":
        return "cancelled"
    return "done" if run.outcome in COUNTING else "failed"


def _points(plan: SweepPlan, runs: Mapping[str, RunStanding]) -> tuple[PointStanding, ...]:
    of_point: dict[str, list[RunStanding]] = {point.name: [] for point in plan.points}
    for planned in plan.runs:
        of_point[planned.point].append(runs[planned.name])
    label = labels(plan)
    found = []
    for name, members in of_point.items():
        known = [run.value for run in members if run.value is not None]
        mean = statistics.fmean(known) if known else None
        found.append(PointStanding(name, label[name], tuple(members), mean, len(known)))
    return tuple(found)


def _left(runs: tuple[RunStanding, ...], slots: int, budget_left_s: float | None) -> float | None:
    """Seconds until the last run ends, as if all took as long as is usual; None before anything tells."""
    running = [run for run in runs if run.standing == "running"]
    queued = sum(run.standing == "queued" for run in runs)
    took = [run.took_s for run in runs if run.standing == "done" and run.took_s is not None]
    paces = {run.run.run.name: pace for run in running if (pace := _pace(run)) is not None}
    known = took or list(paces.values())
    if not known or not (running or queued):
        return None
    usual = statistics.median(known)
    rests = [max(0.0, paces.get(run.run.run.name, usual) - (run.took_s or 0.0)) for run in running]
    in_turn = (sum(rests) + queued * usual) / max(1, min(slots, len(running) + queued))
    left = max([in_turn, *rests, *([usual] if queued else [])])
    return left if budget_left_s is None else min(left, max(0.0, budget_left_s))


def _pace(run: RunStanding) -> float | None:
    """Seconds that the whole run takes, by its own speed; None while it has made too few steps."""
    step, total = run.progress.step, run.progress.total
    if not step or not total or run.took_s is None or step < LEAST_SHARE * total:
        return None
    return run.took_s * total / step
