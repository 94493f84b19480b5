"""What a level does: its difference from the baseline level of its key, tested over seeds.

In: a study and its run results. Out: `KeyEffect`s with their `Contrast`s, and `Interaction`s, after Holm's
correction. A contrast is the mean difference of points that differ in this key alone, each pair with equal
weight; for two points that is Student's t test, or Welch's where they have unequal numbers of runs. The
points of a random design cannot be paired: each is compared with the baseline point as a whole. A point with
one run takes part in no test: the difference stands there without one.

An interaction is, for one level of either key beside the baseline's, the difference of two differences,
averaged over the levels of the other keys; of several such levels the smallest p counts, times their number
(Bonferroni). All contrasts and interactions of a study are one family, which Holm's method keeps at 5 %: of
twenty studies in which nothing matters, one says that something does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import combinations, product

import numpy as np

from harness.config.values import Scalar, same_value
from harness.results import stats, task_statistics
from harness.results.comparing import metrics
from harness.results.comparing.types import (
    Contrast,
    Expected,
    Finding,
    Interaction,
    Key,
    KeyEffect,
    Point,
    RunResult,
    Study,
)
from harness.wording import short_labels

WHOLE = "point"
"""The key of contrasts between points that differ in several keys; its levels are their names."""

ONE_SEED = "one seed: nothing can be said about other seeds"
NO_SCATTER = "all seeds of a point gave the same number, so there is no scatter to test against"
TOO_LARGE = "the numbers are too large or too small to compute with"


def key_effects(
    study: Study, results: Sequence[RunResult]
) -> tuple[tuple[KeyEffect, ...], tuple[Interaction, ...]]:
    """What each key does, and how far that depends on another key."""
    cells = _Cells(study, results)
    contrasts, pairs = list(_contrasts(cells)), list(_interactions(cells))
    tested = [one.p for one in contrasts if one.p is not None]
    adjusted = iter(stats.holm([*tested, *(pair.p for pair in pairs)]))
    contrasts = [one if one.p is None else _judged(one, next(adjusted)) for one in contrasts]
    pairs = [
        replace(one, p_adjusted=p, matters=p < stats.ALPHA) for one, p in zip(pairs, adjusted, strict=True)
    ]
    effects = [_effect(key.name, [one for one in contrasts if one.key == key.name]) for key in cells.keys]
    return tuple(effects), tuple(pairs)


def _judged(contrast: Contrast, p: float) -> Contrast:
    finding: Finding = "no detectable difference"
    if p < stats.ALPHA:
        finding = "higher" if (contrast.difference or 0.0) > 0 else "lower"
    return replace(contrast, p_adjusted=p, finding=finding)


def _effect(key: str, contrasts: Sequence[Contrast]) -> KeyEffect:
    tested = [(one.p, one.p_adjusted or 0.0, one.is_found) for one in contrasts if one.p is not None]
    if not tested:
        reasons = "; ".join(dict.fromkeys(one.why_not for one in contrasts))
        return KeyEffect(key, None, contrasts=tuple(contrasts), why_not=reasons or "it has one level")
    p, p_adjusted, found = zip(*tested, strict=True)
    return KeyEffect(key, any(found), min(p), min(p_adjusted), tuple(contrasts))


def expected(study: Study, effects: Sequence[KeyEffect]) -> tuple[Expected, ...]:
    """What became of every expectation that the plan states."""
    found = []
    contrasts = [one for effect in effects for one in effect.contrasts]
    for one in study.expectations:
        finding = next(
            (c.finding for c in contrasts if c.key == one.key and same_value(c.level, one.level)), ""
        )
        if finding not in ("higher", "lower"):
            found.append(Expected(one, "open"))
        else:
            found.append(Expected(one, "held" if finding == one.effect else "did not hold"))
    return tuple(found)


# --- which points can be compared with which ----------------------------------------------------------------


def points_with(study: Study, key: Key, level: Scalar) -> tuple[str, ...]:
    """All points with this level of a key."""
    if key.name == WHOLE:
        return (str(level),)
    return tuple(point.name for point in study.points if same_value(point.levels[key.name], level))


def pairs_of(study: Study, key: Key, level: Scalar) -> list[tuple[str, str]]:
    """Points of a level, each with the one of the baseline level that differs from it in this key alone."""
    if key.name == WHOLE:
        return [(str(level), str(key.baseline))]
    places = {point.name: _place(point, [one for one in study.keys if one != key]) for point in study.points}
    partners = {places[name]: name for name in points_with(study, key, key.baseline)}
    names = points_with(study, key, level)
    return [(name, partners[places[name]]) for name in names if places[name] in partners]


def _place(point: Point, keys: Sequence[Key]) -> tuple[tuple[bool, Scalar], ...]:
    return tuple(_typed(point.levels[key.name]) for key in keys)


def _typed(level: Scalar) -> tuple[bool, Scalar]:
    """Equal for what `same_value` calls the same: true is not 1."""
    return isinstance(level, bool), level


class _Cells:
    """The runs that count, by point (points without any are left out), and the keys that are compared."""

    def __init__(self, study: Study, results: Sequence[RunResult]) -> None:
        self.study, self.keys = study, study.keys
        if study.design == "random":
            names = tuple(point.name for point in study.points)
            baseline = next((point.name for point in study.points if point.is_baseline), names[0])
            self.keys = (Key(WHOLE, names, baseline),)
        self.runs: dict[str, list[RunResult]] = {}
        for result in results:
            if result.value is not None:
                self.runs.setdefault(result.run.point, []).append(result)
        self.values = {name: np.array([run.value for run in runs]) for name, runs in self.runs.items()}

    def pairs(self, key: Key, level: Scalar) -> list[tuple[str, str]]:
        """The pairs whose points both have two runs or more, since only those can be tested; where there are
        none, all whose runs count."""
        pairs = pairs_of(self.study, key, level)
        known = [pair for pair in pairs if all(name in self.values for name in pair)]
        return [pair for pair in known if all(len(self.values[name]) > 1 for name in pair)] or known


# --- contrasts ----------------------------------------------------------------------------------------------


def _contrasts(cells: _Cells) -> Iterator[Contrast]:
    for key in cells.keys:
        for level in key.levels:
            if not same_value(level, key.baseline):
                yield _contrast(cells, key, level)


def _contrast(cells: _Cells, key: Key, level: Scalar) -> Contrast:
    pairs = cells.pairs(key, level)
    sides = tuple(one for one, _ in pairs), tuple(other for _, other in pairs)
    n = tuple(sum(len(cells.values[name]) for name in side) for side in sides)
    found = Contrast(key.name, level, key.baseline, "not tested", n=(n[0], n[1]), points=sides)
    if not pairs:
        return replace(found, why_not=_no_pairs(cells, key, level))
    weights = dict.fromkeys((*sides[0], *sides[1]), 0.0)
    for one, other in pairs:
        weights[one] += 1 / len(pairs)
        weights[other] -= 1 / len(pairs)
    values, row = [cells.values[name] for name in weights], np.array(list(weights.values()))
    found = replace(found, difference=float(row @ [cell.mean() for cell in values]))
    if min(map(len, values)) < 2:
        over = _over_tasks([cells.runs[name] for name in weights], row, cells.study.metric)
        return replace(found, why_not=ONE_SEED, over_tasks=over)
    tested = stats.contrast(values, row)
    if tested is None:
        return replace(found, why_not=TOO_LARGE if stats.has_scatter(values) else NO_SCATTER)
    return replace(found, **asdict(tested), method=_method(len(pairs), [len(cell) for cell in values]))


def _method(pairs: int, runs: Sequence[int]) -> str:
    """How it was tested, in words."""
    is_pooled = len(set(runs)) == 1
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


def _no_pairs(cells: _Cells, key: Key, level: Scalar) -> str:
    for value in (level, key.baseline):
        points = points_with(cells.study, key, value)
        if points and not any(point in cells.values for point in points):
            return f"no run of {', '.join(points[:5])} counts"
    return f"no two points with runs that count differ in {short_labels([key.name])[key.name]} alone"


def _over_tasks(
    runs: Sequence[Sequence[RunResult]], row: np.ndarray, metric: str
) -> tuple[float, float, int] | None:
    """With one run per point: the 95 % interval of the contrast over the validation tasks that all share."""
    measure = metrics.measure_of(metric)
    if not measure or any(len(point) != 1 or not point[0].tasks for point in runs):
        return None
    by_name = [{task.task_id: task for task in point[0].tasks} for point in runs]
    shared = sorted(set.intersection(*map(set, by_name)))
    columns = [task_statistics.task_values([tasks[name] for name in shared], measure) for tasks in by_name]
    bounds = (-1.0, 1.0) if metrics.is_rate(metric) else None
    interval = task_statistics.mean_interval(row @ np.array(columns), bounds)
    return (interval.low, interval.high, interval.n) if interval else None


# --- interactions -------------------------------------------------------------------------------------------


def _interactions(cells: _Cells) -> Iterator[Interaction]:
    """Every two keys whose levels were tried together, with several runs per point; not yet corrected."""
    if cells.study.design in ("random", "one-at-a-time"):
        return
    for one, other in combinations(cells.study.keys, 2):
        p_values = list(_p_values(cells, one, other))
        if p_values:
            p = min(1.0, min(p_values) * len(p_values))
            yield Interaction((one.name, other.name), p, p, False)


def _p_values(cells: _Cells, one: Key, other: Key) -> Iterator[float]:
    squares: dict[object, dict[object, str]] = {}  # levels of all other keys: levels of the two: point
    for point in cells.study.points:
        if len(cells.values.get(point.name, ())) > 1:
            beside = _place(point, [key for key in cells.study.keys if key not in (one, other)])
            squares.setdefault(beside, {})[_place(point, (one, other))] = point.name
    for a, b in product(one.levels, other.levels):
        if same_value(a, one.baseline) or same_value(b, other.baseline):
            continue
        corners = {
            (_typed(level_a), _typed(level_b)): sign_a * sign_b
            for level_a, sign_a in ((a, 1.0), (one.baseline, -1.0))
            for level_b, sign_b in ((b, 1.0), (other.baseline, -1.0))
        }
        whole = [square for square in squares.values() if all(corner in square for corner in corners)]
        weights = {square[at]: sign / len(whole) for square in whole for at, sign in corners.items()}
        values = [cells.values[name] for name in weights]
        tested = stats.contrast(values, np.array(list(weights.values())))
        if tested is not None:
            yield tested.p
