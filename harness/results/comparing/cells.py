"""Which points can be compared with which: the values that count by point, and the contrasts of a key.

In: a study and its run results. Out: `Cells`, and per level the `Sides` of its contrast: points that differ
in this key alone, pair by pair, so that a difference is never one of another key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.config.edit import Scalar
from harness.results.comparing.types import Key, Point, RunResult, Study


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

    @property
    def is_replicated(self) -> bool:
        """Whether any point has two runs."""
        return any(len(values) > 1 for values in self.values.values())

    def of(self, points: Sequence[str]) -> list[np.ndarray]:
        return [self.values[point] for point in points]

    def count(self, points: Sequence[str]) -> int:
        return sum(len(self.values[point]) for point in points if point in self.values)

    def with_level(self, key: Key, level: Scalar) -> tuple[str, ...]:
        """All points with this level of a key, also those without values."""
        return tuple(p.name for p in self.study.points if is_same(p.levels[key.name], level))


def cells_of(study: Study, results: Sequence[RunResult]) -> Cells:
    """The values that count, by point."""
    runs = {
        point.name: tuple(r for r in results if r.run.point == point.name and r.value is not None)
        for point in study.points
    }
    values = {name: np.array([r.value for r in found], dtype=float) for name, found in runs.items() if found}
    return Cells(study, values, {name: found for name, found in runs.items() if found})


def is_same(one: Scalar, other: Scalar) -> bool:
    """Whether two levels are one: true is not 1, and 1 is not 1.0, as in a config."""
    return type(one) is type(other) and one == other


def place(point: Point, keys: Sequence[Key], without: Sequence[str] = ()) -> tuple[tuple[str, Scalar], ...]:
    """Where a point stands in the other keys; equal for points that differ in `without` alone."""
    return tuple(
        (type(point.levels[key.name]).__name__, point.levels[key.name])
        for key in keys
        if key.name not in without
    )


def sides(cells: Cells, key: Key, level: Scalar) -> Sides:
    """The two sides of `level` against the key's baseline level: pairs of points that both have two runs or
    more, since only those can be tested; where there are none, all pairs whose runs count."""
    points = {point.name: point for point in cells.study.points}

    def elsewhere(name: str) -> tuple[tuple[str, Scalar], ...]:
        return place(points[name], cells.study.keys, (key.name,))

    partners = {elsewhere(name): name for name in cells.with_level(key, key.baseline) if name in cells.values}
    first = [name for name in cells.with_level(key, level) if name in cells.values]
    pairs = [(name, partners[elsewhere(name)]) for name in first if elsewhere(name) in partners]
    repeated = [pair for pair in pairs if all(len(cells.values[name]) > 1 for name in pair)]
    chosen = repeated or pairs
    return Sides(tuple(one for one, _ in chosen), tuple(other for _, other in chosen))


def weights(points: Sequence[str], of: Sides) -> np.ndarray:
    """The contrast of two sides as one weight per point: each pair counts the same."""
    found = np.zeros(len(points))
    for name in of.level:
        found[points.index(name)] += 1 / len(of.level)
    for name in of.baseline:
        found[points.index(name)] -= 1 / len(of.baseline)
    return found
