"""Which differences are findings, and which keys matter.

In: contrasts and interactions with their p values. Out: the same, judged, and a `KeyEffect` per key. All of
them are one family, which Holm's method keeps at 5 %: of twenty studies in which nothing matters, one says
that something does. A key matters where one of its contrasts is a finding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from harness.results import stats
from harness.results.comparing.cells import Cells, Sides, weights
from harness.results.comparing.contrasts import additive_of
from harness.results.comparing.types import Contrast, Finding, Interaction, Key, KeyEffect


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


def key_effects(cells: Cells, contrasts: Sequence[Contrast]) -> tuple[KeyEffect, ...]:
    """One effect per key of the study, in its order."""
    return tuple(_effect(cells, key, contrasts) for key in cells.study.keys)


def _effect(cells: Cells, key: Key, all_contrasts: Sequence[Contrast]) -> KeyEffect:
    contrasts = tuple(one for one in all_contrasts if one.key == key.name)
    tested = [one for one in contrasts if one.p is not None and one.p_adjusted is not None]
    if not tested:
        reasons = "; ".join(dict.fromkeys(one.why_not for one in contrasts))
        return KeyEffect(key.name, None, contrasts=contrasts, why_not=reasons or "it has one level")
    return KeyEffect(
        key.name,
        any(one.finding in ("higher", "lower") for one in tested),
        p=min(one.p for one in tested if one.p is not None),
        p_adjusted=min(one.p_adjusted for one in tested if one.p_adjusted is not None),
        share=_share(cells, key, tested),
        contrasts=contrasts,
    )


def _share(cells: Cells, key: Key, tested: Sequence[Contrast]) -> float | None:
    additive = additive_of(cells) if cells.study.design == "random" else None
    if additive is not None:
        return stats.share(additive.model, np.array([additive.row(key, one.level) for one in tested]))
    sides = [Sides(*one.points) for one in tested]
    points = list(dict.fromkeys(name for of in sides for name in (*of.level, *of.baseline)))
    model = stats.cell_means(cells.of(points))
    return stats.share(model, np.array([weights(points, of) for of in sides]))
