"""Which points can be compared with which: the values that count by point, and the two sides of a contrast.

In: a study and its run results. Out: `Cells`, and per level the `Sides` of its contrast: points that differ
in this key alone, pair by pair, so that a difference is never one of another key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.config.values import Scalar, same_value
from harness.results.comparing.types import Key, Point, RunResult, Study

Place = tuple[tuple[bool, Scalar], ...]


@dataclass(frozen=True)
class Sides:
    """The points of a level and, at the same places, those of the baseline level with which they share all
    other levels."""

    level: tuple[str, ...]
    baseline: tuple[str, ...]


@dataclass(frozen=True)
class Cells:
    """The runs that count, by point; points without any are not in `values`."""

    study: Study
    values: Mapping[str, np.ndarray]
    runs: Mapping[str, tuple[RunResult, ...]]

    def of(self, points: Sequence[str]) -> list[np.ndarray]:
        return [self.values[point] for point in points]

    def count(self, points: Sequence[str]) -> int:
        return sum(len(self.values[point]) for point in points if point in self.values)

    def with_level(self, key: Key, level: Scalar) -> tuple[str, ...]:
        """All points with this level of a key, also those without values."""
        return with_level(self.study, key, level)


def cells_of(study: Study, results: Sequence[RunResult]) -> Cells:
    """The values that count, by point."""
    counting = {
        point.name: tuple(r for r in results if r.run.point == point.name and r.value is not None)
        for point in study.points
    }
    runs = {name: found for name, found in counting.items() if found}
    values = {name: np.array([r.value for r in found], dtype=float) for name, found in runs.items()}
    return Cells(study, values, runs)


def typed(level: Scalar) -> tuple[bool, Scalar]:
    """Equal for what `same_value` calls the same: true is not 1."""
    return isinstance(level, bool), level


def place(point: Point, keys: Sequence[Key], without: Sequence[str] = ()) -> Place:
    """Where a point stands in the other keys; equal for points that differ in `without` alone."""
    return tuple(typed(point.levels[key.name]) for key in keys if key.name not in without)


def with_level(study: Study, key: Key, level: Scalar) -> tuple[str, ...]:
    """All points of a study with this level of a key."""
    return tuple(point.name for point in study.points if same_value(point.levels[key.name], level))


def pairs_of(study: Study, key: Key, level: Scalar) -> list[tuple[str, str]]:
    """Points of a level, each with the one of the baseline level that differs from it in this key alone."""
    places = {point.name: place(point, study.keys, (key.name,)) for point in study.points}
    partners = {places[name]: name for name in with_level(study, key, key.baseline)}
    names = with_level(study, key, level)
    return [(name, partners[places[name]]) for name in names if places[name] in partners]


def sides(cells: Cells, key: Key, level: Scalar) -> Sides:
    """The two sides of `level` against the key's baseline level: pairs of points that both have two runs or
    more, since only those can be tested; where there are none, all pairs whose runs count."""
    known = [pair for pair in pairs_of(cells.study, key, level) if all(name in cells.values for name in pair)]
    repeated = [pair for pair in known if all(len(cells.values[name]) > 1 for name in pair)]
    chosen = repeated or known
    return Sides(tuple(one for one, _ in chosen), tuple(other for _, other in chosen))


def weights(points: Sequence[str], of: Sides) -> np.ndarray:
    """The contrast of two sides as one weight per point: each pair counts the same."""
    found = np.zeros(len(points))
    for name in of.level:
        found[points.index(name)] += 1 / len(of.level)
    for name in of.baseline:
        found[points.index(name)] -= 1 / len(of.baseline)
    return found
