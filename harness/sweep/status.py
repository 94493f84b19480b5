"""How a sweep stands while it runs: runs by state, each point's mean so far, the best of them, the time left,
and the words for all of it.

In: a `SweepState`, the time, and where the running runs are. Out: `SweepStatus`, which the live display,
`harness show` and `harness ls --tree` draw. Nothing here is a finding: those need the comparison at the end.
"""

import statistics
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from harness.results.text import one_line
from harness.state import COUNTING
from harness.sweep.plan import SweepPlan
from harness.sweep.run_files import Progress
from harness.sweep.state import RunState, SweepState
from harness.wording import (
    answer_text,
    answering,
    count_text,
    metric_value_text,
    point_label,
    short_duration,
    short_labels,
)

LEAST_SHARE = 0.05  # of its steps that a run must have made before its own speed tells when it will end

Stage = Literal["queued", "running", "waiting", "done", "failed", "cancelled"]
GLYPHS: Mapping[Stage, str] = {
    "queued": "·", "running": "▸", "waiting": "?", "done": "✓", "failed": "✗", "cancelled": "–"
}  # fmt: skip
WORDS: Mapping[Stage, str] = {
    **{stage: stage for stage in GLYPHS},
    "waiting": "waiting for an answer",
    "cancelled": "not run",
}


@dataclass(frozen=True)
class RunStatus:
    """One run. `took_s`: seconds that it runs, or ran, without those for which a person was asked."""

    run: RunState
    stage: Stage
    progress: Progress
    took_s: float | None

    @property
    def name(self) -> str:
        return self.run.name

    @property
    def value(self) -> float | None:
        """Its metric at the end, where the run counts."""
        return self.run.value if self.stage == "done" else None

    @property
    def step(self) -> str:
        """`120/240`; `starting` before the first."""
        step, total = self.progress.step, self.progress.total
        return "starting" if step is None else f"{step}/{total}" if total else f"step {step}"

    @property
    def outcome(self) -> str:
        return one_line(self.run.outcome).replace("_", " ")

    @property
    def cell(self) -> str:
        """The run in a few characters: a sign for its state, and how far it is or what it came to."""
        number = metric_value_text(self.value) if self.value is not None else "no value"
        more = {"running": self.step, "waiting": "asks", "done": number, "failed": self.outcome}
        return f"{GLYPHS[self.stage]} {more.get(self.stage, '')}".rstrip()

    @property
    def pace_s(self) -> float | None:
        """Seconds that the whole run takes, by its own speed; None while it has made too few steps."""
        step, total = self.progress.step, self.progress.total
        if not step or not total or self.took_s is None or step < LEAST_SHARE * total:
            return None
        return self.took_s * total / step


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
        return f"{metric_value_text(self.mean)} ({seeds})"


@dataclass(frozen=True)
class SweepStatus:
    """The whole sweep at `now`, in epoch seconds. `runs`: all of them by point, a canary first; `points`:
    those that are compared. Times in seconds, None where nothing is known."""

    state: SweepState
    plan: SweepPlan
    now: float
    runs: tuple[RunStatus, ...]
    points: tuple[PointStatus, ...]

    @property
    def canary(self) -> RunStatus | None:
        return next((run for run in self.runs if run.run.is_canary), None)

    @cached_property
    def compared(self) -> tuple[RunStatus, ...]:
        return tuple(run for run in self.runs if not run.run.is_canary)

    @cached_property
    def ranked(self) -> list[PointStatus]:
        """The points that have a mean, the best first."""
        known = [point for point in self.points if point.mean is not None]
        return sorted(known, key=lambda point: point.mean or 0.0, reverse=self.state.goal != "min")

    @property
    def best(self) -> PointStatus | None:
        return next(iter(self.ranked), None) if self.state.goal else None

    @cached_property
    def counts(self) -> Mapping[Stage, int]:
        """How many of the compared runs are where."""
        return Counter(run.stage for run in self.compared)

    @property
    def counted(self) -> list[tuple[Stage, str]]:
        """`12 of 180 runs done`, `4 running`, `2 failed`, `162 queued`; what is none is left out."""
        others: tuple[Stage, ...] = ("running", "waiting", "failed", "queued", "cancelled")
        words = [(stage, f"{self.counts[stage]} {WORDS[stage]}") for stage in others if self.counts[stage]]
        return [("done", f"{self.counts['done']} of {len(self.compared)} runs done"), *words]

    @property
    def tally(self) -> str:
        return ", ".join(words for _, words in self.counted)

    @property
    def best_so_far(self) -> str:
        """The best point with its mean; "" before any run has ended with a value."""
        words = f"{one_line(self.best.label)}  {one_line(self.state.metric)}" if self.best else ""
        return f"{self.best.mean_so_far}  {words}" if self.best else ""

    def to_answer(self, sweep: str) -> list[tuple[str, list[str]]]:
        """What runs ask a person now, such as `3 runs ask: May it be lower?`, with a diff below it, and the
        commands that answer it. `sweep`: how its folder is named there."""
        by_question: dict[str, list[str]] = {}
        for run in self.state.waiting:
            by_question.setdefault(run.asks, []).append(run.name)
        found = []
        for alike, runs in by_question.items():
            question = self.state.questions[alike]
            who = f"{count_text(len(runs), 'run')} {'ask' if runs[1:] else 'asks'}"
            named = sweep if len(by_question) == 1 else f"{sweep}/{runs[0]}"
            found.append((f"{who}: {question.text}", answering(named, question.options)))
        return found

    def to_answer_in_short(self, sweep: str) -> list[str]:
        """The same in a line for each."""
        return [one_line(answer_text(ways, asked)) for asked, ways in self.to_answer(sweep)]

    @property
    def elapsed_s(self) -> float:
        return (self.state.finished_at or self.now) - self.state.created_at

    @property
    def budget_left_s(self) -> float | None:
        """May be negative; None without a budget, or when the sweep has finished."""
        deadline = self.state.deadline_at if self.state.finished_at is None else None
        return deadline - self.now if deadline is not None else None

    @cached_property
    def left_s(self) -> float | None:
        """Until the last run ends, if all take as long as those that ended, else as those that run."""
        running = [run for run in self.compared if run.stage == "running"]
        took = [run.took_s for run in self.compared if run.stage == "done" and run.took_s is not None]
        queued = self.counts["queued"]
        known = took or [run.pace_s for run in running if run.pace_s is not None]
        if self.state.finished_at is not None or not known or not (running or queued):
            return None
        usual = statistics.median(known)
        rests = [max(0.0, (run.pace_s or usual) - (run.took_s or 0.0)) for run in running]
        in_turn = (sum(rests) + queued * usual) / max(1, min(self.plan.parallel, len(running) + queued))
        left = max([in_turn, *rests, *([usual] if queued else [])])
        return left if self.budget_left_s is None else min(left, max(0.0, self.budget_left_s))

    @property
    def times(self) -> list[str]:
        """`1h 02m so far`, `about 3h 00m left, 4 at once`, `budget 12h 00m, 10h 58m left`."""
        found = [f"{short_duration(self.elapsed_s)} so far"]
        if self.left_s is not None:
            found.append(f"about {short_duration(self.left_s)} left, {self.plan.parallel} at once")
        if self.plan.budget_s is not None:
            left = f", {short_duration(self.budget_left_s)} left" if self.budget_left_s is not None else ""
            found.append(f"budget {short_duration(self.plan.budget_s)}{left}")
        return found


def status(state: SweepState, now: float, steps_of: Callable[[str], Progress]) -> SweepStatus:
    """The sweep as it stands at `now`; `steps_of` is only asked for runs that run."""
    by_point = sorted(state.runs.values(), key=lambda run: run.run.point)
    runs = tuple(_run(run, now, steps_of) for run in by_point)
    label = labels(state.plan)
    members: dict[str, list[RunStatus]] = {point.name: [] for point in state.plan.points}
    for run in runs:
        if not run.run.is_canary:
            members[run.run.run.point].append(run)
    points = tuple(PointStatus(name, label[name], tuple(found)) for name, found in members.items())
    return SweepStatus(state, state.plan, now, runs, points)


def labels(plan: SweepPlan) -> dict[str, str]:
    """For each point's name what differs from the baseline, in few words."""
    short = short_labels(key.name for key in plan.keys)
    return {point.name: point_label(point.changed(plan.keys), short) for point in plan.points}


def _run(run: RunState, now: float, steps_of: Callable[[str], Progress]) -> RunStatus:
    is_running = run.status == "running"
    took = run.took_s(now) if is_running or run.ended_at is not None else None
    return RunStatus(run, _stage(run), steps_of(run.name) if is_running else Progress(), took)


def _stage(run: RunState) -> Stage:
    if run.status == "queued" or run.status == "running":
        return "waiting" if run.asks else run.status
    if run.status == "not_run" or run.outcome == "cancelled":
        return "cancelled"
    return "done" if run.outcome in COUNTING else "failed"
