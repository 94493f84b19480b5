"""How far what one key does depends on another.

In: `Cells`. Out: `Interaction`s, not yet corrected. For one level of either key beside the baseline's it is
the difference of two differences, averaged over the levels of the other keys, and tested like any contrast of
points; of several such levels the smallest p counts, times their number (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

import numpy as np

from harness.config.values import same_value
from harness.results import stats
from harness.results.comparing.cells import Cells, place, typed
from harness.results.comparing.types import Interaction, Key


def interactions(cells: Cells) -> tuple[Interaction, ...]:
    """Every two keys whose levels were tried together, with several runs per point."""
    if cells.study.design in ("random", "one-at-a-time"):
        return ()
    found = [(pair, list(_p_values(cells, *pair))) for pair in combinations(cells.study.keys, 2)]
    smallest = [(pair, min(1.0, min(p) * len(p))) for pair, p in found if p]
    return tuple(Interaction((one.name, other.name), p, p, False) for (one, other), p in smallest)


def _p_values(cells: Cells, one: Key, other: Key) -> Iterator[float]:
    squares: dict[object, dict[object, str]] = {}  # levels of all other keys: levels of the two: point
    for point in cells.study.points:
        if len(cells.values.get(point.name, ())) > 1:
            at = place(point, (one, other))
            squares.setdefault(place(point, cells.study.keys, (one.name, other.name)), {})[at] = point.name
    for a, b in product(one.levels, other.levels):
        if same_value(a, one.baseline) or same_value(b, other.baseline):
            continue
        corners = [
            (place_of, sign_a * sign_b)
            for level_a, sign_a in ((a, 1.0), (one.baseline, -1.0))
            for level_b, sign_b in ((b, 1.0), (other.baseline, -1.0))
            for place_of in [(typed(level_a), typed(level_b))]
        ]
        whole = [square for square in squares.values() if all(at in square for at, _ in corners)]
        weights = {square[at]: sign / len(whole) for square in whole for at, sign in corners}
        values = cells.of(list(weights))
        tested = stats.contrast(values, np.array(list(weights.values()))) if _scatters(values) else None
        if tested is not None:
            yield tested.p


def _scatters(values: list[np.ndarray]) -> bool:
    return bool(values) and stats.has_scatter(values)
