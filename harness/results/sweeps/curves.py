"""The lines that the curves figure draws: several runs' curves as one mean with a band.

In: the `Comparison`'s runs that count. Out: `Line`s, one per point or per level of a key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from harness.config.edit import Scalar
from harness.results.comparing.cells import is_same
from harness.results.comparing.types import Comparison, Contrast, Curve, Key, KeyEffect
from harness.results.sweeps.series import Line
from harness.results.sweeps.wording import bounds_of

MOST_STEPS = 200  # longer curves are drawn as means of this many neighbourhoods

Steps = np.ndarray  # int or float64 [steps]
Matrix = np.ndarray  # float64 [runs, steps]


def line_of_point(comparison: Comparison, point: str, label: str, is_baseline: bool) -> Line | None:
    """The mean over the point's runs. The band: 95 % t interval over three or more seeds, the range of two,
    none for one. None where no run that counts has a curve."""
    curves = curves_of(comparison, point)
    if not curves:
        return None
    steps, values = common(curves)
    low, high = band(values, bounds_of(comparison))
    runs = tuple(common([curve]) for curve in curves) if len(curves) > 1 else ()
    each = tuple((own_steps, own_values[0]) for own_steps, own_values in runs)
    return Line(label, steps, values.mean(axis=0), low, high, each, is_baseline)


def line_of_points(
    comparison: Comparison, points: Sequence[str], label: str, is_baseline: bool
) -> Line | None:
    """The mean over several points, each counting the same; the band is from the lowest to the highest of
    them, and no interval."""
    means = []
    for point in points:
        curves = curves_of(comparison, point)
        if curves:
            steps, values = common(curves)
            means.append(Curve(tuple(steps.tolist()), tuple(values.mean(axis=0).tolist())))
    if not means:
        return None
    steps, values = common(means)
    low, high = (values.min(axis=0), values.max(axis=0)) if len(means) > 1 else (None, None)
    return Line(label, steps, values.mean(axis=0), low, high, (), is_baseline)


def curves_of(comparison: Comparison, point: str) -> list[Curve]:
    """The curves of a point's runs that count, without what is not a finite number."""
    kept = []
    for run in comparison.runs:
        if run.run.point == point and run.value is not None:
            values = np.array(run.curve.values, dtype=float)
            finite = np.isfinite(values)
            if finite.any():
                steps = np.array(run.curve.steps)[finite]
                kept.append(Curve(tuple(steps.tolist()), tuple(values[finite].tolist())))
    return kept


def common(curves: Sequence[Curve]) -> tuple[Steps, Matrix]:
    """The steps that all curves have, and the values there; where they share fewer than two, all steps of
    their common range, with values between measurements on the straight line."""
    shared = sorted(set(curves[0].steps).intersection(*(curve.steps for curve in curves[1:])))
    if len(shared) < 2 and len(curves) > 1:
        first = max(min(curve.steps) for curve in curves)
        last = min(max(curve.steps) for curve in curves)
        within = {step for curve in curves for step in curve.steps if first <= step <= last}
        shared = sorted(within) or [first]
    steps = np.array(shared, dtype=float)
    values = np.array([np.interp(steps, curve.steps, curve.values) for curve in curves])
    return _thinned(steps, values)


def _thinned(steps: Steps, values: Matrix) -> tuple[Steps, Matrix]:
    if len(steps) <= MOST_STEPS:
        return steps, values
    starts = np.linspace(0, len(steps), MOST_STEPS, endpoint=False).astype(int)
    counts = np.diff([*starts, len(steps)])
    return np.add.reduceat(steps, starts) / counts, np.add.reduceat(values, starts, axis=1) / counts


def band(
    values: Matrix, bounds: tuple[float, float] = (-np.inf, np.inf)
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Low and high over the runs, cut to where values can be; None, None for a single one."""
    runs = len(values)
    if runs < 2:
        return None, None
    if runs == 2:
        return values.min(axis=0), values.max(axis=0)
    mean = values.mean(axis=0)
    half = stats.t.ppf(0.975, runs - 1) * values.std(axis=0, ddof=1) / np.sqrt(runs)
    return np.clip(mean - half, *bounds), np.clip(mean + half, *bounds)


def groups(effect: KeyEffect, comparison: Comparison) -> tuple[tuple[Scalar, tuple[str, ...]], ...]:
    """Each level of a key with the points behind it: those that its contrasts compare, else all that have it.
    Pairs and no mapping, where 1, 1.0 and true would be one level."""
    key = next((key for key in comparison.study.keys if key.name == effect.key), None)
    if key is None:
        return ()
    made = [
        (level, _compared(effect, key, level) or _with_level(comparison, key.name, level))
        for level in key.levels
    ]
    return tuple((level, points) for level, points in made if points)


def _compared(effect: KeyEffect, key: Key, level: Scalar) -> tuple[str, ...]:
    if is_same(level, key.baseline):
        return max((contrast.points[1] for contrast in effect.contrasts), key=len, default=())
    contrast = contrast_of(effect, level)
    return contrast.points[0] if contrast is not None else ()


def contrast_of(effect: KeyEffect, level: Scalar) -> Contrast | None:
    """The contrast of a level with the baseline level."""
    return next((contrast for contrast in effect.contrasts if is_same(contrast.level, level)), None)


def _with_level(comparison: Comparison, key: str, level: Scalar) -> tuple[str, ...]:
    return tuple(
        result.point.name
        for result in comparison.points
        if key in result.point.levels and is_same(result.point.levels[key], level)
    )
