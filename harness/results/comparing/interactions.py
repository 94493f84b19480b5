"""Whether what one key does depends on another.

In: `Cells`. Out: `Interaction`s that nobody has judged yet. For one level of either key beside the baseline's
it is the difference of two differences, averaged over the levels of the other keys, and tested like any
contrast of points; of several such levels the smallest p counts, times their number (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, product
from typing import Any

import numpy as np

from harness.config.edit import Scalar
from harness.results import stats
from harness.results.comparing.cells import Cells, is_same, place
from harness.results.comparing.types import Interaction, Key

Corners = Mapping[tuple[Any, ...], str]
"""Points by their place: the levels of the two keys, then of all others."""


def interactions(cells: Cells) -> tuple[Interaction, ...]:
    """Every two keys whose levels were tried together, with several runs per point."""
    if cells.study.design in ("random", "one-at-a-time"):
        return ()
    found = [(pair, list(_p_values(cells, *pair))) for pair in combinations(cells.study.keys, 2)]
    smallest = [(pair, min(1.0, min(p) * len(p))) for pair, p in found if p]
    return tuple(Interaction((one.name, other.name), p, p, False) for (one, other), p in smallest)


def _p_values(cells: Cells, one: Key, other: Key) -> Iterator[float]:
    keys = cells.study.keys
    corners = {
        (
            _typed(point.levels[one.name]),
            _typed(point.levels[other.name]),
            place(point, keys, (one.name, other.name)),
        ): point.name
        for point in cells.study.points
        if len(cells.values.get(point.name, ())) > 1
    }
    for a, b in product(one.levels, other.levels):
        if not is_same(a, one.baseline) and not is_same(b, other.baseline):
            weights = _difference_of_differences(corners, (a, one.baseline), (b, other.baseline))
            values = cells.of(list(weights))
            if values and stats.has_scatter(values):
                tested = stats.contrast(values, np.array(list(weights.values())))
                if tested is not None:
                    yield tested.p


def _difference_of_differences(
    corners: Corners, ones: tuple[Scalar, Scalar], others: tuple[Scalar, Scalar]
) -> dict[str, float]:
    """(a, b) − (baseline, b) − (a, baseline) + (baseline, baseline), averaged over the levels of the other
    keys at which all four are there: points with their weights, empty where there are none."""
    signs = {(one, other): (-1.0) ** (one + other) for one in (0, 1) for other in (0, 1)}
    squares = []
    for rest in dict.fromkeys(rest for _, _, rest in corners):
        named = {
            corners.get((_typed(ones[one]), _typed(others[other]), rest)): sign
            for (one, other), sign in signs.items()
        }
        if None not in named:
            squares.append({str(name): sign for name, sign in named.items()})
    return {name: sign / len(squares) for square in squares for name, sign in square.items()}


def _typed(level: Scalar) -> tuple[str, Scalar]:
    """Equal for the same level only: true is not 1."""
    return type(level).__name__, level
