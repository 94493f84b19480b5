"""What a level does: its difference from the baseline level of its key, tested over seeds.

In: `Cells`. Out: `KeyEffect`s with their `Contrast`s, after Holm's correction. A contrast is the mean
difference of points that differ in this key alone, each pair with equal weight; for two points that is
Student's t test, or Welch's where they have unequal numbers of runs. The points of a random design cannot be
paired: each is compared with the baseline point as a whole. A point with one run takes part in no test: the
difference stands there without one.

All contrasts and interactions of a study are one family, which Holm's method keeps at 5 %: of twenty studies
in which nothing matters, one says that something does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from harness.config.values import same_value
from harness.results import stats, task_statistics
from harness.results.comparing import metrics
from harness.results.comparing.cells import Cells, Sides, sides, weights
from harness.results.comparing.types import (
    Contrast,
    Expected,
    Finding,
    Interaction,
    Key,
    KeyEffect,
    RunResult,
    Study,
)

WHOLE = "point"
"""The key of contrasts between points that differ in several keys; its levels are their names."""

ONE_SEED = "one seed: nothing can be said about other seeds"
NO_SCATTER = "all seeds of a point gave the same number, so there is no scatter to test against"
TOO_LARGE = "the numbers are too large or too small to compute with"


def contrasts_of(cells: Cells, metric: str) -> tuple[Contrast, ...]:
    """Every level of every key against its baseline, tested and not yet corrected."""
    return tuple(_contrast(cells, key, contrast, of, metric) for key, contrast, of in _planned(cells))


def _planned(cells: Cells) -> Iterator[tuple[Key, Contrast, Sides]]:
    """What is compared with what."""
    study = cells.study
    if study.design == "random":
        names = tuple(point.name for point in study.points)
        baseline = next((point.name for point in study.points if point.is_baseline), names[0])
        known = {name: (name,) if name in cells.values else () for name in names}
        for name in names:
            of = Sides(known[name] and known[baseline] and (name,), known[name] and known[baseline])
            if name != baseline:
                yield Key(WHOLE, names, baseline), Contrast(WHOLE, name, baseline, "not tested"), of
        return
    for key in study.keys:
        for level in key.levels:
            if not same_value(level, key.baseline):
                contrast = Contrast(key.name, level, key.baseline, "not tested")
                yield key, contrast, sides(cells, key, level)


def _contrast(cells: Cells, key: Key, contrast: Contrast, of: Sides, metric: str) -> Contrast:
    n = (cells.count(of.level), cells.count(of.baseline))
    contrast = replace(contrast, n=n, points=(of.level, of.baseline))
    if not of.level:
        return replace(contrast, why_not=_no_pairs(cells, key, contrast))
    points = list(dict.fromkeys((*of.level, *of.baseline)))
    row, values = weights(points, of), cells.of(points)
    contrast = replace(contrast, difference=float(row @ [cell.mean() for cell in values]))
    if min(map(len, values)) < 2:
        over = _over_tasks([cells.runs[name] for name in points], row, metric)
        return replace(contrast, why_not=ONE_SEED, over_tasks=over)
    if not stats.has_scatter(values):
        return replace(contrast, why_not=NO_SCATTER)
    tested = stats.contrast(values, row)
    if tested is None:
        return replace(contrast, why_not=TOO_LARGE)
    return replace(
        contrast,
        difference=tested.difference,
        low=tested.low,
        high=tested.high,
        p=tested.p,
        degrees=tested.degrees,
        effect=tested.effect,
        detectable=tested.detectable,
        seeds_needed=stats.seeds_of_contrast(tested.difference, values, row),
        method=_method(len(of.level), [len(cell) for cell in values]),
    )


def _method(pairs: int, runs: Sequence[int]) -> str:
    """How it was tested, in words."""
    is_pooled = stats.are_equal(runs)
    unequal = "the points have unequal numbers of runs"
    if len(runs) == 2 and is_pooled:
        return "Student's t test over seeds, variance pooled within both points"
    if len(runs) == 2:
        return f"Welch's t test over seeds: {unequal}"
    variance = f"variance pooled within {len(runs)} points"
    if not is_pooled:
        variance = f"each point with its own variance (Welch–Satterthwaite): {unequal}"
    average = f"the difference averaged over {pairs} combinations of the other keys"
    return f"t test over seeds of {average}, {variance}"


def _no_pairs(cells: Cells, key: Key, contrast: Contrast) -> str:
    for value in (contrast.level, contrast.baseline):
        points = (str(value),) if key.name == WHOLE else cells.with_level(key, value)
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


# --- what is a finding --------------------------------------------------------------------------------------


def judged(
    contrasts: Sequence[Contrast], pairs: Sequence[Interaction]
) -> tuple[tuple[Contrast, ...], tuple[Interaction, ...]]:
    """The contrasts and interactions after Holm's correction over all that were tested."""
    tested = [contrast.p for contrast in contrasts if contrast.p is not None]
    adjusted = iter(stats.holm([*tested, *(pair.p for pair in pairs)]))
    found = [one if one.p is None else _judged(one, next(adjusted)) for one in contrasts]
    known = zip(pairs, adjusted, strict=True)
    return tuple(found), tuple(replace(pair, p_adjusted=p, matters=p < stats.ALPHA) for pair, p in known)


def _judged(contrast: Contrast, p: float) -> Contrast:
    finding: Finding = "no detectable difference"
    if p < stats.ALPHA:
        finding = "higher" if (contrast.difference or 0.0) > 0 else "lower"
    return replace(contrast, p_adjusted=p, finding=finding)


def key_effects(study: Study, contrasts: Sequence[Contrast]) -> tuple[KeyEffect, ...]:
    """One effect per key, in the order of the study."""
    names = (WHOLE,) if study.design == "random" and contrasts else tuple(key.name for key in study.keys)
    return tuple(_effect(name, [one for one in contrasts if one.key == name]) for name in names)


def _effect(key: str, contrasts: Sequence[Contrast]) -> KeyEffect:
    tested = [one for one in contrasts if one.p is not None]
    if not tested:
        reasons = "; ".join(dict.fromkeys(one.why_not for one in contrasts))
        return KeyEffect(key, None, contrasts=tuple(contrasts), why_not=reasons or "it has one level")
    return KeyEffect(
        key,
        any(one.finding in ("higher", "lower") for one in tested),
        p=min(one.p for one in tested if one.p is not None),
        p_adjusted=min(one.p_adjusted for one in tested if one.p_adjusted is not None),
        contrasts=tuple(contrasts),
    )


def expected(study: Study, contrasts: Sequence[Contrast]) -> tuple[Expected, ...]:
    """What became of every expectation that the plan states."""
    findings = {(one.key, type(one.level), one.level): one.finding for one in contrasts}
    found = []
    for one in study.expectations:
        finding = findings.get((one.key, type(one.level), one.level), "not tested")
        if finding not in ("higher", "lower"):
            found.append(Expected(one, "open"))
        else:
            found.append(Expected(one, "held" if finding == one.effect else "did not hold"))
    return tuple(found)
