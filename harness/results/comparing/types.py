"""The words of a comparison: a study (what was planned), runs (what came of it), contrasts (what follows).

*key*: what is varied: a dotted config key, `arg:--flag` of the command, or `env:NAME`. *level*: one of its
values. *point*: one combination of levels. *run*: one experiment, a point with one seed. Nothing heavy is
imported, so that a sweep can be planned and run without numpy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from harness.config.values import Scalar, same_value
from harness.errors import UserError
from harness.index import sweep_of
from harness.results.types import Source, TaskResult

Goal = Literal["max", "min"]
SIGN: Mapping[Goal | None, int] = {"max": 1, "min": -1, None: 0}
"""What a difference is multiplied with so that more is better; 0 where nobody knows which way that is."""
MeasuredBy = Literal["", "training", "evaluation"]
Finding = Literal["higher", "lower", "no detectable difference", "confounded", "not tested"]


class NotComparableError(UserError):
    """These runs cannot be compared as asked; the message says why, and what to ask for instead."""


# --- in: what is compared -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Key:
    """One thing that is varied. `baseline` is one of `levels`: what the others are compared with."""

    name: str
    levels: tuple[Scalar, ...]
    baseline: Scalar

    def place(self, level: Scalar) -> int:
        """The number of a level among `levels`, from 0."""
        return next(number for number, one in enumerate(self.levels) if same_value(one, level))

    def is_baseline(self, level: Scalar) -> bool:
        return same_value(level, self.baseline)


@dataclass(frozen=True)
class Point:
    """One combination of levels; `levels` has one value per key of the study."""

    name: str
    levels: Mapping[str, Scalar]
    is_baseline: bool = False

    def changed(self, keys: Iterable[Key]) -> dict[str, Scalar]:
        """The levels that are not the baseline of their key."""
        return {key.name: level for key in keys if not key.is_baseline(level := self.levels[key.name])}


@dataclass(frozen=True)
class PlannedRun:
    """One experiment of the study. `folder`: its result folder; `seed`: None where none was set."""

    name: str
    point: str
    seed: int | None
    folder: Path


@dataclass(frozen=True)
class Expectation:
    """What was expected of a key before anything ran. `effect`: of `level` against the baseline."""

    key: str
    level: Scalar
    effect: Literal["higher", "lower", "none"]
    why: str = ""


@dataclass(frozen=True)
class Study:
    """Everything that was decided before the numbers were known.

    `metric`: as in metrics.jsonl, with `val/` for validations; "" lets the comparison choose one, and say so;
    `metric_why`: how it was chosen, where no plan names it.
    `goal`: which way is better, None where nobody said so and the metric's name does not: then no point is.
    `design`: "grid", "one-at-a-time", "random", or "given" for runs that were not planned together.
    `cost_units`: what an hour of one run costs, in `cost_unit`s (GPUs, else 1 run). `not_run`: why a run was
    not started.
    """

    name: str
    question: str
    keys: tuple[Key, ...]
    points: tuple[Point, ...]
    runs: tuple[PlannedRun, ...]
    metric: str = ""
    metric_why: str = ""
    goal: Goal | None = None
    design: str = "given"
    threshold: float | None = None
    cost_units: float = 1.0
    cost_unit: str = "run"
    expectations: tuple[Expectation, ...] = ()
    seed_key: str = ""
    not_run: Mapping[str, str] = field(default_factory=dict)

    @property
    def remembering(self) -> tuple[Path, ...]:
        """The folders that remember the runs' secrets: of their sweeps, else their own."""
        return tuple(dict.fromkeys(sweep_of(run.folder) or run.folder for run in self.runs))


@dataclass(frozen=True)
class Asked:
    """What a person asks for in the place of a study's own; "" and None leave that."""

    metric: str = ""
    goal: Goal | None = None
    threshold: float | None = None


@dataclass(frozen=True)
class Differing:
    """A circumstance in which runs differ, such as the GPU: run to its value; runs that do not record it are
    left out."""

    what: str
    values: Mapping[str, str]


# --- read: what each run came to ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Curve:
    """The metric over one run, one entry per measurement."""

    steps: tuple[float, ...] = ()
    values: tuple[float, ...] = ()


@dataclass(frozen=True)
class RunResult:
    """One run as its folder records it. `value`: the metric at its end, None with the reason in `why_not`
    when the run does not count; `tasks`: of the last validation; `area`: mean height of the curve;
    `deviations`: what repairs changed, in words; `by_person`: what of it a person decided for this run;
    `code_changed`: a model changed its code; `evaluated`: the value is that of the evaluation after the
    training."""

    run: PlannedRun
    outcome: str
    reason: str
    value: float | None
    why_not: str = ""
    source: Source | None = None
    curve: Curve = Curve()
    tasks: tuple[TaskResult, ...] = ()
    last_step: int | None = None
    hours: float | None = None
    attempts: int = 0
    area: float | None = None
    steps_to_threshold: float | None = None
    deviations: tuple[str, ...] = ()
    by_person: tuple[str, ...] = ()
    code_changed: bool = False
    evaluated: bool = False


# --- out: what can be said ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds. `low`, `high`: 95 % t interval, None with fewer than two; `sd`: sample standard
    deviation, None likewise."""

    n: int
    mean: float
    sd: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class PointResult:
    """One point over its seeds. `value` None: no run of it counts. `cost`: mean cost units x hours of a run;
    `cost_per_point`: that per 0.01 of improvement of a rate over its first measurement, None where there was
    none."""

    point: Point
    value: Estimate | None
    planned: int
    area: Estimate | None = None
    steps_to_threshold: Estimate | None = None
    reached_threshold: int = 0
    cost: float | None = None
    cost_per_point: float | None = None

    @property
    def is_single_seed(self) -> bool:
        return self.value is not None and self.value.n == 1


@dataclass(frozen=True)
class Contrast:
    """One level against the baseline level of its key: level − baseline.

    `finding`: the only words that a text may use for it; "confounded" where `why_not` says what else could
    make the difference, which is not tested then. `low` … `seeds_needed`: as in `stats.Tested`, None where
    not tested; `p_adjusted`: by Holm's method over the study's contrasts and interactions. `beside`: in which
    circumstances the sides differ too. `over_tasks`: with one seed each, the 95 % interval over the same
    validation tasks (low, high, tasks), which says nothing about other seeds. `n`, `points`: runs and points
    on either side.
    """

    key: str
    level: Scalar
    baseline: Scalar
    finding: Finding
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    p_adjusted: float | None = None
    degrees: float | None = None
    effect: float | None = None
    detectable: float | None = None
    seeds_needed: int | None = None
    n: tuple[int, int] = (0, 0)
    over_tasks: tuple[float, float, int] | None = None
    points: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    method: str = ""
    why_not: str = ""
    beside: str = ""

    @property
    def is_found(self) -> bool:
        return self.finding in ("higher", "lower")


@dataclass(frozen=True)
class KeyEffect:
    """What one key does: it matters if any of its contrasts is a finding. `matters` None: none was tested,
    `why_not` says why. `p`, `p_adjusted`: the smallest of its contrasts."""

    key: str
    matters: bool | None
    p: float | None = None
    p_adjusted: float | None = None
    contrasts: tuple[Contrast, ...] = ()
    why_not: str = ""


@dataclass(frozen=True)
class Interaction:
    """How far what one key does depends on the other: the smallest p of the differences of their differences,
    times how many of these there are, then adjusted as a contrast's. `matters`: found, so that a contrast of
    either key is an average over unlike effects."""

    keys: tuple[str, str]
    p: float
    p_adjusted: float
    matters: bool


@dataclass(frozen=True)
class Expected:
    """What came of an expectation: `held` where the difference is significant in the expected direction, `did
    not hold` where it is significant otherwise. Anything else is open: that nothing was detected never shows
    that nothing is there."""

    expectation: Expectation
    verdict: Literal["held", "did not hold", "open"]


@dataclass(frozen=True)
class Yardstick:
    """What all runs were measured against. `threshold`: the value whose first step is looked for (the
    baseline's mean where `is_default_threshold`); `span`: the steps over which areas are taken, None where
    the curves share none. `differing_tasks`: the validations had different tasks, `shared_tasks` of them
    common to all."""

    threshold: float | None = None
    is_default_threshold: bool = False
    span: tuple[int, int] | None = None
    differing_tasks: bool = False
    shared_tasks: int = 0


@dataclass(frozen=True)
class Comparison:
    """Everything a report, a table or a sentence about several runs may say.

    `best`: the point with the best mean, None where no goal is known or means are confounded. `missing`: runs
    that do not count, each with the reason, in words.
    `confounds`: what differs between the points beside the keys. `chosen_afterwards`: the metric was not
    named before the runs. `measured_by`: what measured the values, where only some runs were evaluated after
    the training. `interactions`: of every two keys for which one could be tested.
    """

    study: Study
    metric: str
    runs: tuple[RunResult, ...]
    points: tuple[PointResult, ...]
    keys: tuple[KeyEffect, ...]
    yardstick: Yardstick
    best: str | None
    expected: tuple[Expected, ...] = ()
    missing: tuple[str, ...] = ()
    confounds: tuple[str, ...] = ()
    chosen_afterwards: bool = False
    measured_by: MeasuredBy = ""
    interactions: tuple[Interaction, ...] = ()

    @property
    def is_single_seed(self) -> bool:
        """True if no point has two runs that count: then nothing is said about other seeds."""
        return not any(point.value is not None and point.value.n > 1 for point in self.points)

    @property
    def not_attributable(self) -> tuple[Contrast, ...]:
        """The contrasts of which nobody can tell whether they are the key's alone."""
        return tuple(one for one in self.contrasts if one.beside or one.finding == "confounded")

    @property
    def contrasts(self) -> tuple[Contrast, ...]:
        return tuple(contrast for effect in self.keys for contrast in effect.contrasts)

    def depends_on(self, key: str) -> tuple[str, ...]:
        """The keys on which what this one does was found to depend."""
        pairs = [pair.keys for pair in self.interactions if pair.matters and key in pair.keys]
        return tuple(other for pair in pairs for other in pair if other != key)
