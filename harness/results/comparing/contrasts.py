"""What a level does: its difference from the baseline level of its key, tested over seeds.

In: `Cells`. Out: `Contrast`s that nobody has judged yet. Designs where points can be paired (a grid, one at a
time, given runs): the mean difference of points that differ in this key alone, each pair with equal weight;
for two points that is Student's t test, or Welch's where they have unequal numbers of runs. A random design:
the level's effect in an additive model of all runs, where the design determines it and the model fits. A
point with one run takes part in no test of pairs: the difference stands there without a test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harness.config.edit import Scalar
from harness.results import stats, task_statistics
from harness.results.comparing import metrics
from harness.results.comparing.cells import Cells, Sides, is_same, sides, weights
from harness.results.comparing.types import Contrast, Key, RunResult
from harness.results.stats import Tested

ONE_SEED = "one seed: nothing can be said about other seeds"
NO_SCATTER = "all seeds of a point gave the same number, so there is no scatter to test against"
TOO_LARGE = "the numbers are too large or too small to compute with"


@dataclass(frozen=True)
class Additive:
    """The additive model of a random design. `why_not`: why it may not be used, ""."""

    model: Any
    columns: tuple[tuple[str, Scalar], ...]  # key and level of each column after the first
    why_not: str = ""

    def row(self, key: Key, level: Scalar) -> np.ndarray:
        """The combination of parameters that is the effect of this level."""
        at = [name == key.name and is_same(one, level) for name, one in self.columns]
        return np.array([0.0, *map(float, at)])


def contrasts_of(cells: Cells, metric: str) -> tuple[Contrast, ...]:
    """Every level of every key against its baseline; what of it is a finding, `keys.judged` says."""
    additive = additive_of(cells) if cells.study.design == "random" else None
    return tuple(
        _of_model(cells, additive, key, level)
        if additive is not None
        else _of_pairs(cells, key, level, metric)
        for key in cells.study.keys
        for level in key.levels
        if not is_same(level, key.baseline)
    )


# --- pairs of points ----------------------------------------------------------------------------------------


def _of_pairs(cells: Cells, key: Key, level: Scalar, metric: str) -> Contrast:
    of = sides(cells, key, level)
    contrast = Contrast(
        key.name,
        level,
        key.baseline,
        "not tested",
        n=(cells.count(of.level), cells.count(of.baseline)),
        points=(of.level, of.baseline),
    )
    if not of.level:
        return replace(contrast, why_not=_no_pairs(cells, key, level))
    points = list(dict.fromkeys((*of.level, *of.baseline)))
    row = weights(points, of)
    means = np.array([values.mean() for values in cells.of(points)])
    contrast = replace(contrast, difference=float(row @ means))
    values = cells.of(points)
    if min(map(len, values)) < 2:
        over = _over_tasks([cells.runs[name] for name in points], row, metric)
        return replace(contrast, why_not=ONE_SEED, over_tasks=over)
    if not stats.has_scatter(values):
        return replace(contrast, why_not=NO_SCATTER)
    tested = stats.contrast(values, row)
    if tested is None:
        return replace(contrast, why_not=TOO_LARGE)
    needed = stats.seeds_of_contrast(tested.difference, values, row)
    return replace(_with(contrast, tested), seeds_needed=needed, method=_pairs_method(of, values))


def _with(contrast: Contrast, tested: Tested) -> Contrast:
    return replace(
        contrast,
        difference=tested.difference,
        low=tested.low,
        high=tested.high,
        p=tested.p,
        degrees=tested.degrees,
        effect=tested.effect,
        detectable=tested.detectable,
    )


def _pairs_method(of: Sides, values: Sequence[np.ndarray]) -> str:
    """How it was tested, in words."""
    is_pooled = stats.are_equal([len(cell) for cell in values])
    unequal = "the points have unequal numbers of runs"
    if len(values) == 2:
        if is_pooled:
            return "Student's t test over seeds, variance pooled within both points"
        return f"Welch's t test over seeds: {unequal}"
    pooled = f"variance pooled within {len(values)} points"
    return (
        f"t test over seeds of the difference averaged over {len(of.level)} combinations of the other keys, "
        + (pooled if is_pooled else f"each point with its own variance (Welch–Satterthwaite): {unequal}")
    )


def _no_pairs(cells: Cells, key: Key, level: Scalar) -> str:
    for value in (level, key.baseline):
        points = cells.with_level(key, value)
        if points and not any(point in cells.values for point in points):
            return f"no run of {', '.join(points[:5])} counts"
    return f"no two points with runs that count differ in {key.short} alone"


def _over_tasks(
    runs: list[tuple[RunResult, ...]], row: np.ndarray, metric: str
) -> tuple[float, float, int] | None:
    """With one run per point: the 95 % interval of the contrast over the validation tasks that all share."""
    measure = metrics.measure_of(metric)
    if not measure or any(len(point) != 1 or not point[0].tasks for point in runs):
        return None
    shared = set.intersection(*({task.task_id for task in point[0].tasks} for point in runs))
    columns = []
    for (run,) in runs:
        tasks = sorted((task for task in run.tasks if task.task_id in shared), key=lambda task: task.task_id)
        columns.append(task_statistics.task_values(tasks, measure))
    bounds = (-1.0, 1.0) if metrics.is_rate(metric) else None
    interval = task_statistics.mean_interval(row @ np.array(columns), bounds) if shared else None
    return (interval.low, interval.high, interval.n) if interval else None


# --- the additive model -------------------------------------------------------------------------------------


def additive_of(cells: Cells) -> Additive | None:
    """The additive model of all runs that count; None where no run does."""
    points = [point for point in cells.study.points if point.name in cells.values]
    if not points:
        return None
    columns = tuple(
        (key.name, level)
        for key in cells.study.keys
        for level in key.levels
        if not is_same(level, key.baseline)
    )
    levels = np.array([_places(point.levels[key.name], key) for point in points for key in cells.study.keys])
    counts = [len(cells.values[point.name]) for point in points]
    rows = np.repeat(levels.reshape(len(points), -1), counts, axis=0)
    values = np.concatenate(cells.of([point.name for point in points]))
    indicators = [
        rows[:, at] == _places(level, key)
        for at, key in enumerate(cells.study.keys)
        for level in key.levels
        if not is_same(level, key.baseline)
    ]
    model = stats.linear_model(values, np.column_stack([np.ones(len(values)), *indicators]).astype(float))
    return Additive(model, columns, _misfit(cells, model, [point.name for point in points]))


def _places(level: Scalar, key: Key) -> int:
    return next(at for at, one in enumerate(key.levels) if is_same(one, level))


def _misfit(cells: Cells, model: Any, points: list[str]) -> str:
    values = cells.of(points)
    if not cells.is_replicated or not stats.has_scatter(values):
        return ""
    p = stats.lack_of_fit(stats.cell_means(values), model)
    if p is None or p >= stats.ALPHA:
        return ""
    return (
        f"the keys do not add up (lack of fit, p = {p:.2g}): what one does depends on the others, and a "
        "random design cannot tell how"
    )


def _of_model(cells: Cells, additive: Additive, key: Key, level: Scalar) -> Contrast:
    first = tuple(name for name in cells.with_level(key, level) if name in cells.values)
    second = tuple(name for name in cells.with_level(key, key.baseline) if name in cells.values)
    n = (cells.count(first), cells.count(second))
    contrast = Contrast(key.name, level, key.baseline, "not tested", n=n, points=(first, second))
    row = additive.row(key, level)
    model = additive.model
    if not first or not second or not stats.is_estimable(model, row):
        return replace(contrast, why_not="the runs that count do not tell this level from other keys")
    contrast = replace(contrast, difference=float(row @ model.params))
    one_seed = "" if cells.is_replicated and min(n) > 1 else ONE_SEED
    why_not = additive.why_not or one_seed or _thin(cells, model)
    tested = None if why_not else stats.contrast_in_model(model, row)
    if tested is None:
        return replace(contrast, why_not=why_not or TOO_LARGE)
    points, runs = len(cells.values), int(model.nobs)
    rank = runs - tested.degrees
    needed = stats.seeds_needed(
        tested.difference,
        lambda seeds: tested.error * float(np.sqrt(runs / (points * seeds))),
        lambda seeds: points * seeds - rank,
    )
    method = f"additive model of the keys' levels over all {runs} runs (no interactions), t test"
    return replace(_with(contrast, tested), seeds_needed=needed, method=method)


def _thin(cells: Cells, model: Any) -> str:
    """Why the model leaves nothing to test against, ""."""
    if model.df_resid < 1:
        return "too few runs for so many levels"
    return "" if stats.has_scatter(list(cells.values.values())) else NO_SCATTER
