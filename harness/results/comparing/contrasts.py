"""What a level does: its difference from the baseline level of its key, tested over seeds.

In: a study and its run results. Out: `KeyEffect`s with their `Contrast`s, and `Interaction`s, after Holm's
correction. A contrast is the mean difference of points that differ in this key alone, each pair with equal
weight, each with its own variance: for two points that is Welch's t test. The points of a random design
cannot be paired: each is compared with the baseline point as a whole. A point with one run takes part in no
test, nor does a contrast whose sides differ in more than the key: the difference stands there without one.

An interaction is, for one level of either key beside the baseline's, the difference of two differences,
averaged over the levels of the other keys; of several such levels the smallest p counts, times their number
(Bonferroni). All contrasts and interactions of a study are one family, which Holm's method keeps at 5 %: of
twenty studies in which nothing matters, one says that something does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import combinations

import numpy as np

from harness.config import keys
from harness.config.values import Scalar, same_value
from harness.results import stats, task_statistics
from harness.results.comparing import metrics
from harness.results.comparing.types import (
    Contrast,
    Differing,
    Expected,
    Finding,
    Interaction,
    Key,
    KeyEffect,
    RunResult,
    Study,
)
from harness.wording import listed, short_labels

WHOLE = "point"
"""The key of contrasts between points that differ in several keys; its levels are their names."""

ONE_SEED = "one seed: nothing can be said about other seeds"
NO_SCATTER = "all seeds of a point gave the same number, so there is no scatter to test against"
TOO_LARGE = "the numbers are too large or too small to compute with"
LENGTH_SHARE = 0.1
"""Runs that were not planned together and end by more than this earlier did not train as long."""


def key_effects(
    study: Study, results: Sequence[RunResult], differing: Sequence[Differing] = ()
) -> tuple[tuple[KeyEffect, ...], tuple[Interaction, ...]]:
    """What each key does, and how far that depends on another key. `differing`: in which circumstances the
    runs differ; a contrast whose sides share no value of one of these says so."""
    cells = Cells(study, results, differing)
    planned = [(key, level) for key in cells.keys for level in key.levels if not key.is_baseline(level)]
    contrasts = [_contrast(cells, key, level) for key, level in planned]
    is_confounded = any(one.finding == "confounded" for one in contrasts)
    pairs = [] if is_confounded else list(_interactions(cells))
    tested = [one.p for one in contrasts if one.p is not None]
    adjusted = iter(stats.holm([*tested, *(pair.p for pair in pairs)]))
    contrasts = [one if one.p is None else _judged(one, next(adjusted)) for one in contrasts]
    found = zip(pairs, adjusted, strict=True)
    pairs = [replace(one, p_adjusted=p, matters=p < stats.ALPHA) for one, p in found]
    effects = [_effect(key.name, [one for one in contrasts if one.key == key.name]) for key in cells.keys]
    return tuple(effects), tuple(pairs)


def _judged(contrast: Contrast, p: float) -> Contrast:
    direction: Finding = "higher" if (contrast.difference or 0.0) > 0 else "lower"
    finding: Finding = direction if p < stats.ALPHA else "no detectable difference"
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
    contrasts, found = [one for effect in effects for one in effect.contrasts], []
    for one in study.expectations:
        findings = [of.finding for of in contrasts if of.key == one.key and same_value(of.level, one.level)]
        has_held = findings == [one.effect]
        is_open = not findings or findings[0] not in ("higher", "lower")
        found.append(Expected(one, "open" if is_open else "held" if has_held else "did not hold"))
    return tuple(found)


# --- which points can be compared with which ----------------------------------------------------------------


Place = tuple[int, ...]
"""Where a point stands: for every key, the number of its level."""


class Cells:
    """The points of a study by their place, and the runs that count by point; those without any are not in
    `runs` and `values`."""

    def __init__(
        self, study: Study, results: Sequence[RunResult] = (), differing: Sequence[Differing] = ()
    ) -> None:
        self.study, self.keys, self.differing = study, study.keys, differing
        self.place: dict[str, Place] = {
            point.name: tuple(key.place(point.levels[key.name]) for key in study.keys)
            for point in study.points
        }
        if study.design == "random":
            names = tuple(self.place)
            baseline = next((point.name for point in study.points if point.is_baseline), names[0])
            self.keys = (Key(WHOLE, names, baseline),)
            self.place = {name: (number,) for number, name in enumerate(names)}
        self.at = {place: name for name, place in self.place.items()}
        self.runs: dict[str, list[RunResult]] = {}
        for result in results:
            if result.value is not None:
                self.runs.setdefault(result.run.point, []).append(result)
        self.values = {name: np.array([run.value for run in runs]) for name, runs in self.runs.items()}

    def with_level(self, key: Key, level: Scalar) -> tuple[str, ...]:
        """All points with this level of a key."""
        column, number = self.keys.index(key), key.place(level)
        return tuple(name for name, place in self.place.items() if place[column] == number)

    def pairs(self, key: Key, level: Scalar) -> list[tuple[str, str]]:
        """Points of a level, each with the one of the baseline level that differs in this key alone."""
        column, baseline = self.keys.index(key), key.place(key.baseline)
        moved = {name: _moved(self.place[name], {column: baseline}) for name in self.with_level(key, level)}
        return [(name, self.at[place]) for name, place in moved.items() if place in self.at]


def _moved(place: Place, to: Mapping[int, int]) -> Place:
    return tuple(to.get(column, number) for column, number in enumerate(place))


# --- contrasts ----------------------------------------------------------------------------------------------


def _contrast(cells: Cells, key: Key, level: Scalar) -> Contrast:
    """Of the pairs whose points both have two runs or more, since only those can be tested; where there are
    none, of all whose runs count."""
    known = [pair for pair in cells.pairs(key, level) if all(name in cells.values for name in pair)]
    pairs = [pair for pair in known if all(len(cells.values[name]) > 1 for name in pair)] or known
    sides = tuple(one for one, _ in pairs), tuple(other for _, other in pairs)
    ones, others = (sum(len(cells.values[name]) for name in side) for side in sides)
    found = Contrast(key.name, level, key.baseline, "not tested", n=(ones, others), points=sides)
    if not pairs:
        return replace(found, why_not=_no_pairs(cells, key, level))
    weights = dict.fromkeys((*sides[0], *sides[1]), 0.0)
    for one, other in pairs:
        weights[one] += 1 / len(pairs)
        weights[other] -= 1 / len(pairs)
    values, row = [cells.values[name] for name in weights], np.array(list(weights.values()))
    found = replace(found, difference=float(row @ [cell.mean() for cell in values]))
    found = replace(found, beside="; ".join(_beside(cells, sides)))
    if why_not := _unequal_training(cells, key, sides):
        return replace(found, finding="confounded", why_not=why_not)
    if min(map(len, values)) < 2:
        over = _over_tasks([cells.runs[name] for name in weights], row, cells.study.metric)
        return replace(found, why_not=ONE_SEED, over_tasks=over)
    tested = stats.contrast(values, row)
    if tested is None:
        return replace(found, why_not=TOO_LARGE if stats.has_scatter(values) else NO_SCATTER)
    return replace(found, **asdict(tested), method=_method(len(pairs), [len(cell) for cell in values]))


def _method(pairs: int, runs: Sequence[int]) -> str:
    few = "; degrees of freedom as if all had as few runs as the smallest" if len(set(runs)) > 1 else ""
    if pairs == 1:
        return f"Welch's t test over seeds, each point with its own variance{few}"
    average = f"the difference averaged over {pairs} combinations of the other keys"
    return f"t test over seeds of {average}, each point with its own variance (Welch–Satterthwaite){few}"


Sides = tuple[tuple[str, ...], tuple[str, ...]]
"""The points that a contrast compares."""


def _beside(cells: Cells, sides: Sides) -> Iterator[str]:
    """The circumstances in which the runs of the two sides differ: no value of it is on both sides."""
    names = [[run.run.name for point in side for run in cells.runs[point]] for side in sides]
    for one in cells.differing:
        ours, theirs = ({one.values.get(name, "") for name in side} for side in names)
        if "" not in ours | theirs and not ours & theirs:
            pair = (listed(sorted(values), 2, " or ") for values in (ours, theirs))
            yield f"{one.what} ({' against '.join(pair)})"


def _unequal_training(cells: Cells, key: Key, sides: Sides) -> str:
    """Why sides that nobody planned together cannot be compared: of two points one trained clearly longer,
    and not because of the key; "" where they can."""
    if cells.study.design != "given" or keys.is_length(key.name):
        return ""
    for pair in zip(*sides, strict=True):
        ends = [[run.curve.steps[-1] for run in cells.runs[point] if run.curve.steps] for point in pair]
        short, long = sorted(ends, key=lambda each: max(each, default=-1.0))
        if short and max(short) < (1 - LENGTH_SHARE) * min(long):
            spans = ({min(each): "", max(each): ""} for each in (short, long))
            until = (" to ".join(f"{end:g}" for end in span) for span in spans)
            return f"the runs of one side trained until {' and of the other until '.join(until)}"
    return ""


def _no_pairs(cells: Cells, key: Key, level: Scalar) -> str:
    for points in (cells.with_level(key, level), cells.with_level(key, key.baseline)):
        if points and not any(point in cells.values for point in points):
            return f"no run of {', '.join(points[:5])} counts"
    return f"no two points with runs that count differ in {short_labels([key.name])[key.name]} alone"


def _over_tasks(
    runs: Sequence[Sequence[RunResult]], row: np.ndarray, metric: str
) -> tuple[float, float, int] | None:
    """With one run per point: the 95 % interval of the contrast over the validation tasks that all share."""
    measure = task_statistics.measure_of(metric)
    if not measure or any(len(point) != 1 or not point[0].tasks for point in runs):
        return None
    by_name = [{task.task_id: task for task in point[0].tasks} for point in runs]
    shared = sorted(set.intersection(*map(set, by_name)))
    columns = [task_statistics.task_values([tasks[name] for name in shared], measure) for tasks in by_name]
    bounds = (-1.0, 1.0) if metrics.is_rate(metric) else None
    interval = task_statistics.mean_interval(row @ np.array(columns), bounds)
    return (interval.low, interval.high, interval.n) if interval else None


# --- interactions -------------------------------------------------------------------------------------------


def _interactions(cells: Cells) -> Iterator[Interaction]:
    """Every two keys whose levels were tried together, with several runs per point; not yet corrected."""
    if cells.study.design in ("random", "one-at-a-time"):
        return
    for (one, key), (other, another) in combinations(enumerate(cells.keys), 2):
        base, another_base = {one: key.place(key.baseline)}, {other: another.place(another.baseline)}
        squares: dict[Place, list[list[str]]] = {}  # by the levels of the two keys
        for place in cells.place.values():
            moves: tuple[dict[int, int], ...] = ({}, another_base, base, base | another_base)
            corners = [cells.at.get(_moved(place, to), "") for to in moves]
            if len(set(corners)) == 4 and all(len(cells.values.get(name, ())) > 1 for name in corners):
                squares.setdefault((place[one], place[other]), []).append(corners)
        tested = [_tested(cells, each) for each in squares.values()]
        p_values = [found.p for found in tested if found is not None]
        if p_values:
            p = min(1.0, min(p_values) * len(p_values))
            yield Interaction((key.name, another.name), p, p, False)


def _tested(cells: Cells, squares: Sequence[Sequence[str]]) -> stats.Tested | None:
    signs = (1.0, -1.0, -1.0, 1.0)
    signed = [pair for corners in squares for pair in zip(corners, signs, strict=True)]
    weights = {name: sign / len(squares) for name, sign in signed}
    return stats.contrast([cells.values[name] for name in weights], np.array(list(weights.values())))
