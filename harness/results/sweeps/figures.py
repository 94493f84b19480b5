"""Figures of a comparison: curves with bands, levels of each key, quality against time.

In: the `Comparison`. Out: `Figure`s in `<folder>/figures/`, each with its data. What a picture averages over,
and what its band means, stands in its caption (`templates/reports/sweep_captions.txt.j2`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from scipy import stats

from harness.config.values import Scalar, same_value
from harness.results.charts import MOST_LABELLED, Chart, Kind, Line, Mark, Panel, save_all
from harness.results.comparing.contrasts import Cells
from harness.results.comparing.types import SIGN, Comparison, Contrast, Curve, Key, KeyEffect
from harness.results.sweeps.tables import cost_unit
from harness.results.sweeps.wording import as_number, bounds_of, key_labels, level_text, point_labels
from harness.results.types import Figure
from harness.templating import render

MOST_POINTS = 8  # lines in one panel; more points are shown level by level
MOST_STEPS = 200  # longer curves are drawn as means of this many neighbourhoods
_MOST_PANELS = 12  # keys that are drawn
LEAST_SHARE, LEAST_HOURS = 0.1, 0.01  # of times that differ less, quality is not drawn against time

Matrix = np.ndarray  # float64 [runs, steps]
Ends = np.ndarray | None  # float64 [steps]


def draw_figures(
    comparison: Comparison, folder: Path, left_out: list[str], into: Path | None = None
) -> list[Figure]:
    """Draw what there is to draw, as `save_all`."""
    names = {"curves": _curves, "levels": _levels, "quality": _quality}
    makers = [(f"the figure of {name}", partial(make, comparison)) for name, make in names.items()]
    return save_all(makers, left_out, folder, into)


def _chart(
    kind: Kind, title: str, x: str, panels: Sequence[Panel], comparison: Comparison, **shown: object
) -> Chart:
    values = {"kind": kind, "is_single_seed": comparison.is_single_seed, **shown}
    caption = " ".join(render("reports/sweep_captions.txt.j2", **values).split())
    metric, goal = comparison.metric, comparison.study.goal or "max"
    return Chart(kind, f"{metric} {title}", caption, kind, x, metric, tuple(panels), goal)


# --- curves -------------------------------------------------------------------------------------------------


def _curves(comparison: Comparison) -> Chart | None:
    by_key = _panels_by_key(comparison) if len(comparison.points) > MOST_POINTS else []
    panels = by_key or [_panel_of_points(comparison)]
    lines = [line for panel in panels for line in panel.lines]
    ends = [value for line in lines for values in (line.y, *(ys for _, ys in line.runs)) for value in values]
    if ends:
        cut = partial(_cut, low=min(ends), high=max(ends))
        panels = [replace(panel, lines=tuple(map(cut, panel.lines))) for panel in panels]
    if not any(len(line.x) > 1 for line in lines):
        return None
    return _chart(
        *("curves", "over the steps", "step", panels, comparison),
        by_key=bool(by_key),
        points=len(comparison.points),
        has_runs=any(line.runs for line in lines),
        has_baseline=any(line.is_baseline for line in lines),
        is_crowded=any(len(panel.lines) > MOST_LABELLED for panel in panels),
        is_long=any(len(line.x) == MOST_STEPS for line in lines),
    )


def _cut(line: Line, low: float, high: float) -> Line:
    """The line with its band over seeds cut to what was measured, so that a wide one flattens no curve."""
    if not line.runs:
        return line
    sides = (np.array(ends, dtype=float) for ends in (line.low, line.high))
    lows, highs = (np.clip(ends, low, high).tolist() for ends in sides)
    return replace(line, low=tuple(lows), high=tuple(highs))


def _panel_of_points(comparison: Comparison) -> Panel:
    labels = point_labels(comparison)
    points = [one.point for one in comparison.points]
    lines = [_line(comparison, (one.name,), labels[one.name], one.is_baseline) for one in points]
    return Panel(lines=tuple(filter(None, lines)))


def _panels_by_key(comparison: Comparison) -> list[Panel]:
    names, panels = key_labels(comparison), []
    for effect, key in _effects(comparison):
        lines = []
        for level, points, _ in groups(effect, key, comparison):
            is_baseline = key.is_baseline(level)
            label = f"{level_text(level)} (baseline)" if is_baseline else level_text(level)
            lines.append(_line(comparison, points, label, is_baseline))
        panels.append(Panel(names[key.name], tuple(filter(None, lines))))
    return [panel for panel in panels if panel.lines]


def _line(comparison: Comparison, points: Sequence[str], label: str, is_baseline: bool) -> Line | None:
    """The mean of a point's runs with its `band`; of several points their mean, each counting the same, with
    a band from the lowest to the highest of them. None where no run that counts has a curve."""
    by_point = list(filter(None, (_curves_of(comparison, point) for point in points)))
    if not by_point:
        return None
    is_alone = len(points) == 1
    curves = by_point[0] if is_alone else [_mean_of(each) for each in by_point]
    steps, values = common(curves)
    low, high = band(values) if is_alone else (values.min(axis=0), values.max(axis=0))
    has_band = len(values) > 1
    runs = map(_mean_of, zip(curves)) if is_alone and has_band else ()
    return Line(
        label,
        tuple(steps.tolist()),
        tuple(values.mean(axis=0).tolist()),
        low=tuple(low.tolist()) if has_band and low is not None else (),
        high=tuple(high.tolist()) if has_band and high is not None else (),
        runs=tuple((one.steps, one.values) for one in runs),
        is_baseline=is_baseline,
    )


def _curves_of(comparison: Comparison, point: str) -> list[Curve]:
    """The curves of a point's runs that count, without what is not a finite number."""
    kept = []
    for run in comparison.runs:
        if run.run.point == point and run.value is not None:
            pairs = zip(run.curve.steps, run.curve.values, strict=True)
            finite = [(step, value) for step, value in pairs if math.isfinite(value)]
            if finite:
                kept.append(Curve(*zip(*finite, strict=True)))
    return kept


def _mean_of(curves: Sequence[Curve]) -> Curve:
    steps, values = common(curves)
    return Curve(tuple(steps.tolist()), tuple(values.mean(axis=0).tolist()))


def common(curves: Sequence[Curve]) -> tuple[np.ndarray, Matrix]:
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
    if len(steps) <= MOST_STEPS:
        return steps, values
    starts = np.linspace(0, len(steps), MOST_STEPS, endpoint=False).astype(int)
    counts = np.diff([*starts, len(steps)])
    return np.add.reduceat(steps, starts) / counts, np.add.reduceat(values, starts, axis=1) / counts


def band(values: Matrix) -> tuple[Ends, Ends]:
    """Low and high over the runs: the 95 % t interval over three or more seeds, the range of two, None for a
    single one."""
    runs = len(values)
    if runs < 2:
        return None, None
    if runs == 2:
        return values.min(axis=0), values.max(axis=0)
    mean = values.mean(axis=0)
    half = stats.t.ppf(0.975, runs - 1) * values.std(axis=0, ddof=1) / np.sqrt(runs)
    return mean - half, mean + half


# --- levels of a key ----------------------------------------------------------------------------------------


def _effects(comparison: Comparison) -> list[tuple[KeyEffect, Key]]:
    keys = {key.name: key for key in comparison.study.keys}
    return [(effect, keys[effect.key]) for effect in comparison.keys if effect.key in keys][:_MOST_PANELS]


def groups(
    effect: KeyEffect, key: Key, comparison: Comparison
) -> list[tuple[Scalar, tuple[str, ...], Contrast | None]]:
    """Each level of a key with its contrast and the points behind it: those that the contrasts compare, else
    all that have it."""
    cells, found = Cells(comparison.study), []
    for level in key.levels:
        contrast = next((one for one in effect.contrasts if same_value(one.level, level)), None)
        points = contrast.points[0] if contrast is not None else ()
        if key.is_baseline(level):
            points = max((one.points[1] for one in effect.contrasts), key=len, default=())
        found.append((level, points or cells.with_level(key, level), contrast))
    return [(level, points, contrast) for level, points, contrast in found if points]


def _levels(comparison: Comparison) -> Chart | None:
    names = key_labels(comparison)
    drawn = [(names[key.name], _level_marks(effect, key, comparison)) for effect, key in _effects(comparison)]
    panels = [Panel(title, marks=marks) for title, marks in drawn if len(marks) > 1]
    has_intervals = any(mark.low is not None for panel in panels for mark in panel.marks)
    return _chart("levels", "by key", "", panels, comparison, has_intervals=has_intervals) if panels else None


def _level_marks(effect: KeyEffect, key: Key, comparison: Comparison) -> tuple[Mark, ...]:
    """Every level at its mean; where it was compared, at the baseline's mean plus the difference."""
    means = {one.point.name: one.value.mean for one in comparison.points if one.value is not None}
    known = []
    for level, points, contrast in groups(effect, key, comparison):
        each = [means[name] for name in points if name in means]
        known.append((level, points, contrast, float(np.mean(each)) if each else None))
    base = next((mean for level, *_, mean in known if key.is_baseline(level)), None)
    marks = []
    for level, points, contrast, y in known:
        low = high = None
        if contrast is not None and contrast.difference is not None and base is not None:
            y = base + contrast.difference
            low = None if contrast.low is None else base + contrast.low
            high = None if contrast.high is None else base + contrast.high
        if y is not None:
            counting = [run.value for run in comparison.runs if run.run.point in points]
            runs = tuple(value for value in counting if value is not None)
            is_baseline = key.is_baseline(level)
            number = as_number(level)
            marks.append(Mark(level_text(level), number, y, low, high, len(runs), runs, is_baseline))
    return tuple(marks)


# --- quality against time -----------------------------------------------------------------------------------


def _quality(comparison: Comparison) -> Chart | None:
    labels, (least, most) = point_labels(comparison), bounds_of(comparison)
    found = []
    for one in comparison.points:
        if one.value is not None and one.cost is not None:
            found.append((one.point, one.cost, one.value))
    costs = [cost for _, cost, _ in found]
    sign = SIGN[comparison.study.goal]
    marks = []
    for point, cost, value in found:
        is_front = not any(
            other <= cost and sign * its.mean >= sign * value.mean and (other, its.mean) != (cost, value.mean)
            for _, other, its in found
        )
        low = None if value.low is None else max(least, value.low)
        high = None if value.high is None else min(most, value.high)
        is_labelled = is_front or point.is_baseline or len(found) <= MOST_POINTS
        label = labels[point.name]
        marks.append(Mark(label, cost, value.mean, low, high, value.n, (), is_front, is_labelled))
    least = max(costs, default=0.0) - max(LEAST_HOURS, LEAST_SHARE * min(costs, default=0.0))
    if not sign or len(marks) < 2 or min(costs) >= least:
        return None
    x, has_single = f"{cost_unit(comparison)} per run", any(mark.n == 1 for mark in marks)
    panels = (Panel(marks=tuple(marks)),)
    return _chart("quality", "against time", x, panels, comparison, has_single=has_single)
