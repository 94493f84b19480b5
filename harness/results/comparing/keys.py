"""Whether a key matters at all, and whether what it does depends on another key.

In: `Cells` and the contrasts. Out: `KeyEffect`s: an F test of all levels of a key together, Holm-adjusted
over the keys. With several runs per point the noise is that between the seeds of a point. With one run per
point it is what an additive model of the keys leaves, which takes interactions for noise, and cannot see what
this one seed does to a level; the notes say so. A random design is always tested in its additive model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from harness.results import stats
from harness.results.comparing.cells import Cells, is_same, place, sides, weights
from harness.results.comparing.contrasts import NO_SCATTER, ONE_SEED, additive_of
from harness.results.comparing.types import Contrast, Key, KeyEffect

FEWEST_DEGREES = 3  # residual degrees of freedom with which an additive model of single runs is tested


@dataclass(frozen=True)
class Interaction:
    """Whether the effect of one key depends on another; `p_adjusted` over all pairs of keys."""

    keys: tuple[str, str]
    p: float
    p_adjusted: float


def key_effects(cells: Cells, contrasts: Sequence[Contrast]) -> tuple[KeyEffect, ...]:
    """One effect per key of the study, in its order."""
    effects = [
        replace(_effect(cells, key), contrasts=tuple(one for one in contrasts if one.key == key.name))
        for key in cells.study.keys
    ]
    adjusted = iter(stats.holm([effect.p for effect in effects if effect.p is not None]))
    return tuple(effect if effect.p is None else _judged(effect, next(adjusted)) for effect in effects)


def _judged(effect: KeyEffect, p: float) -> KeyEffect:
    return replace(effect, p_adjusted=p, matters=p < stats.ALPHA)


def _effect(cells: Cells, key: Key) -> KeyEffect:
    if len(key.levels) < 2:
        return KeyEffect(key.name, None, why_not="it has one level")
    if cells.study.design == "random" or (cells.values and not cells.is_replicated):
        return _in_additive(cells, key)
    found = [sides(cells, key, level) for level in key.levels if not is_same(level, key.baseline)]
    found = [of for of in found if of.level]
    if not found:
        return KeyEffect(key.name, None, why_not="no two points with runs that count differ in it alone")
    points = list(dict.fromkeys(name for of in found for name in (*of.level, *of.baseline)))
    values = cells.of(points)
    model = stats.cell_means(values)
    if model.df_resid < 1:
        return KeyEffect(key.name, None, why_not=ONE_SEED)
    if not stats.has_scatter(values):
        return KeyEffect(key.name, None, why_not=NO_SCATTER)
    return _tested(key, model, np.array([weights(points, of) for of in found]))


def _tested(key: Key, model: Any, rows: np.ndarray) -> KeyEffect:
    test = stats.joint(model, rows)
    return KeyEffect(key.name, None, p=test.p, share=test.share)


def _in_additive(cells: Cells, key: Key) -> KeyEffect:
    additive = additive_of(cells)
    if additive is None:
        return KeyEffect(key.name, None, why_not="no run counts")
    rows = [additive.row(key, level) for level in key.levels if not is_same(level, key.baseline)]
    rows = [row for row in rows if _is_told(cells, additive.model, row)]
    if not rows:
        return KeyEffect(key.name, None, why_not="the runs that count do not tell it from other keys")
    if additive.why_not:
        return KeyEffect(key.name, None, why_not=additive.why_not)
    fewest = 1 if cells.is_replicated else FEWEST_DEGREES
    if additive.model.df_resid < fewest:
        why_not = "too few runs for so many levels" if cells.is_replicated else ONE_SEED
        return KeyEffect(key.name, None, why_not=why_not)
    if np.ptp(additive.model.resid) <= 1e-9 * max(np.abs(additive.model.model.endog).max(), 1e-300):
        return KeyEffect(key.name, None, why_not=NO_SCATTER)
    return _tested(key, additive.model, np.array(rows))


def _is_told(cells: Cells, model: Any, row: np.ndarray) -> bool:
    """Whether the model has runs with this level, and can tell it from other keys."""
    return bool(model.model.exog[:, row != 0].any()) and stats.is_estimable(model, row)


# --- interactions -------------------------------------------------------------------------------------------


def interactions(cells: Cells) -> tuple[Interaction, ...]:
    """Every pair of keys whose levels were tried together, with several runs per point."""
    if cells.study.design in ("random", "one-at-a-time"):
        return ()
    found = [(pair, p) for pair in combinations(cells.study.keys, 2) for p in _interaction(cells, *pair)]
    adjusted = stats.holm([p for _, p in found])
    return tuple(
        Interaction((one.name, other.name), p, p_all)
        for ((one, other), p), p_all in zip(found, adjusted, strict=True)
    )


def _interaction(cells: Cells, one: Key, other: Key) -> Iterator[float]:
    """The p value of all differences of differences; nothing where they cannot be tested."""
    names = list(cells.values)
    rows = [
        row
        for a in one.levels
        for b in other.levels
        if not is_same(a, one.baseline) and not is_same(b, other.baseline)
        for row in [_difference_of_differences(cells, names, (one, a), (other, b))]
        if row is not None
    ]
    if not rows:
        return
    used = [bool(column.any()) for column in np.array(rows).T]
    values = [cells.values[name] for name, is_used in zip(names, used, strict=True) if is_used]
    model = stats.cell_means(values)
    if model.df_resid >= 1 and stats.has_scatter(values):
        yield stats.joint(model, np.array(rows)[:, used]).p


def _difference_of_differences(
    cells: Cells, names: list[str], one: tuple[Key, Any], other: tuple[Key, Any]
) -> np.ndarray | None:
    """(a, b) − (baseline, b) − (a, baseline) + (baseline, baseline), averaged over the levels of the other
    keys with which all four have runs that count; None where there are none."""
    (key_a, a), (key_b, b) = one, other
    row, quadruples = np.zeros(len(names)), 0
    points = [point for point in cells.study.points if point.name in cells.values]
    rests = dict.fromkeys(place(point, cells.study.keys, (key_a.name, key_b.name)) for point in points)
    for rest in rests:
        corners = []
        for level_a, level_b, sign in (
            (a, b, 1),
            (key_a.baseline, b, -1),
            (a, key_b.baseline, -1),
            (key_a.baseline, key_b.baseline, 1),
        ):
            corners += [
                (names.index(point.name), sign)
                for point in points
                if is_same(point.levels[key_a.name], level_a)
                and is_same(point.levels[key_b.name], level_b)
                and place(point, cells.study.keys, (key_a.name, key_b.name)) == rest
            ]
        if len(corners) == 4:
            quadruples += 1
            for at, sign in corners:
                row[at] += sign
    return row / quadruples if quadruples else None
