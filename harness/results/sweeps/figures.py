"""Figures of a comparison: curves with bands, sensitivity per key, quality against time.

In: the `Comparison`. Out: `Figure`s, each with its SVG, PNG and the CSV of its data in `<folder>/figures/`.
What a picture averages over, and what its band means, stands in its caption; drawing is in `drawing`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from harness.results.comparing.cells import is_same
from harness.results.comparing.types import Comparison, KeyEffect, PointResult
from harness.results.figures import csv_text, remove_others, save
from harness.results.sweeps import drawing as drawing
from harness.results.sweeps.curves import MOST_STEPS, contrast_of, groups, line_of_point, line_of_points
from harness.results.sweeps.series import CurvePanel, Dot, KeyPanel, LevelMark, Line
from harness.results.sweeps.tables import cost_unit, hours_of
from harness.results.sweeps.wording import as_number, bounds_of, key_labels, level_text, point_labels
from harness.results.types import Figure

MOST_POINTS = 8  # lines in one panel; more points are shown level by level
_MOST_PANELS = 12  # keys that are drawn
_CUT = "cut at the edge of the picture"
_BAND = f"band: 95 % t interval over seeds (of two seeds: their range), {_CUT}; thin lines: the runs"


def draw_figures(comparison: Comparison, folder: Path) -> list[Figure]:
    """Draw what there is to draw into `<folder>/figures/`; figures of an earlier report are taken away."""
    target = folder / "figures"
    target.mkdir(exist_ok=True)
    drawn = (_curves(comparison, target), _sensitivity(comparison, target), _quality(comparison, target))
    figures = [figure for figure in drawn if figure is not None]
    remove_others(target, figures)
    return figures


# --- curves -------------------------------------------------------------------------------------------------


def _curves(comparison: Comparison, target: Path) -> Figure | None:
    is_by_key = len(comparison.points) > MOST_POINTS and bool(comparison.keys)
    panels = _panels_by_key(comparison) if is_by_key else _panel_of_points(comparison)
    if not any(len(line.steps) > 1 for panel in panels for line in panel.lines):
        return None
    picture = drawing.curves(panels, comparison.metric, comparison.study.goal == "max")
    caption = _curves_caption(comparison, panels, is_by_key)
    figure = Figure("curves", f"{comparison.metric} over the steps", caption, picture.svg, ())
    header = ("panel", "line", "kind", "run", "step", "value", "low", "high")
    return save(figure, picture.png, csv_text(header, _curve_rows(panels)), target)


def _panel_of_points(comparison: Comparison) -> list[CurvePanel]:
    labels = point_labels(comparison)
    lines = [
        line_of_point(comparison, point.point.name, labels[point.point.name], point.point.is_baseline)
        for point in comparison.points
    ]
    return [CurvePanel("", tuple(line for line in lines if line is not None))]


def _panels_by_key(comparison: Comparison) -> list[CurvePanel]:
    names = key_labels(comparison)
    panels = []
    for effect in comparison.keys[:_MOST_PANELS]:
        key = next((key for key in comparison.study.keys if key.name == effect.key), None)
        lines = []
        for level, points in groups(effect, comparison):
            is_baseline = key is not None and is_same(level, key.baseline)
            label = f"{level_text(level)} (baseline)" if is_baseline else level_text(level)
            if len(points) == 1:
                lines.append(line_of_point(comparison, points[0], label, is_baseline))
            else:
                lines.append(line_of_points(comparison, points, label, is_baseline))
        made = tuple(line for line in lines if line is not None)
        if made:
            panels.append(CurvePanel(names.get(effect.key, effect.key), made))
    return panels


def _curves_caption(comparison: Comparison, panels: list[CurvePanel], is_by_key: bool) -> str:
    lines = [line for panel in panels for line in panel.lines]
    single = "single seed: no band can be drawn, and no line says anything about other seeds"
    if not is_by_key:
        said = single if comparison.is_single_seed else f"mean over seeds; {_BAND}"
    elif any(line.runs for line in lines):
        said = (
            f"{len(comparison.points)} points, one panel per key: each line is the point in which this key "
            f"alone has that level; {_BAND}"
        )
    else:
        said = (
            f"{len(comparison.points)} points, one panel per key: each line is the mean over all points with "
            f"that level; band: from the lowest to the highest of these points, no interval, {_CUT}"
        )
        said += f"; {single.partition(':')[0]} per point" if comparison.is_single_seed else ""
    if any(line.is_baseline for line in lines):
        said += "; dashed: baseline"
    if any(len(panel.lines) > drawing.MOST_LABELLED for panel in panels):
        said += "; in grey: all but the baseline and the lines that end best"
    if any(len(line.steps) == MOST_STEPS for line in lines):
        said += f"; long curves as means of {MOST_STEPS} neighbourhoods"
    return f"{said[0].upper()}{said[1:]}."


def _curve_rows(panels: Iterable[CurvePanel]) -> Iterator[tuple[object, ...]]:
    for panel in panels:
        for line in panel.lines:
            yield from _line_rows(panel.title, line)


def _line_rows(panel: str, line: Line) -> Iterator[tuple[object, ...]]:
    for index, (step, mean) in enumerate(zip(line.steps.tolist(), line.mean.tolist(), strict=True)):
        low, high = (None if ends is None else repr(float(ends[index])) for ends in (line.low, line.high))
        yield (panel, line.label, "mean", "", _step(step), repr(mean), low, high)
    for number, (steps, values) in enumerate(line.runs, start=1):
        for step, value in zip(steps.tolist(), values.tolist(), strict=True):
            yield (panel, line.label, "run", number, _step(step), repr(value), "", "")


def _step(step: float) -> str:
    return str(int(step)) if step == int(step) else repr(step)


# --- sensitivity --------------------------------------------------------------------------------------------


def _sensitivity(comparison: Comparison, target: Path) -> Figure | None:
    names = key_labels(comparison)
    panels = []
    for effect in comparison.keys[:_MOST_PANELS]:
        marks = _marks(effect, comparison)
        if len(marks) > 1:
            panels.append((effect.key, KeyPanel(names.get(effect.key, effect.key), marks)))
    if not panels:
        return None
    picture = drawing.sensitivity([panel for _, panel in panels], comparison.metric)
    has_intervals = any(mark.low is not None for _, panel in panels for mark in panel.marks)
    caption = "Mean per level; diamond and dashed line: the baseline; small dots: the runs. " + (
        "Vertical lines: 95 % interval of the difference from the baseline; one that crosses the dashed line "
        "is no evidence of one, and one that does not may still be no finding once several comparisons are "
        "corrected for."
        if has_intervals
        else "No intervals: nothing was tested."
    )
    if comparison.is_single_seed:
        caption += " Single seed per point: other seeds may come out elsewhere."
    rows = (
        (key, mark.label, *row)
        for key, panel in panels
        for mark in panel.marks
        for row in (
            ("mean", repr(mark.mean), mark.low, mark.high),
            *(("run", repr(value), "", "") for value in mark.runs),
        )
    )
    figure = Figure("sensitivity", f"{comparison.metric} by key", caption, picture.svg, ())
    return save(figure, picture.png, csv_text(("key", "level", "kind", "value", "low", "high"), rows), target)


def _marks(effect: KeyEffect, comparison: Comparison) -> tuple[LevelMark, ...]:
    key = next((key for key in comparison.study.keys if key.name == effect.key), None)
    if key is None:
        return ()
    behind = groups(effect, comparison)
    results = {point.point.name: point for point in comparison.points}
    at_baseline = next((points for level, points in behind if is_same(level, key.baseline)), ())
    base = _mean([results[name] for name in at_baseline if name in results])
    marks = []
    for level, points in behind:
        mean = _mean([results[name] for name in points if name in results])
        contrast = contrast_of(effect, level)
        low = high = None
        if contrast is not None and base is not None and contrast.difference is not None:
            mean = base + contrast.difference
            if contrast.low is not None and contrast.high is not None:
                low, high = base + contrast.low, base + contrast.high
        if mean is not None and math.isfinite(mean):
            runs = tuple(_values(comparison, points))
            is_baseline = is_same(level, key.baseline)
            marks.append(LevelMark(level_text(level), as_number(level), mean, low, high, runs, is_baseline))
    return tuple(marks)


def _mean(points: list[PointResult]) -> float | None:
    """The mean over the points that have a value, each counting the same."""
    means = [point.value.mean for point in points if point.value is not None]
    return float(np.mean(means)) if means else None


def _values(comparison: Comparison, points: tuple[str, ...]) -> Iterator[float]:
    for run in comparison.runs:
        if run.run.point in points and run.value is not None and math.isfinite(run.value):
            yield run.value


# --- quality against time -----------------------------------------------------------------------------------


def _quality(comparison: Comparison, target: Path) -> Figure | None:
    dots = _dots(comparison)
    if len(dots) < 2:
        return None
    unit = cost_unit(comparison)
    picture = drawing.quality(dots, comparison.metric, f"{unit} per run")
    caption = (
        "One dot per point: mean final value over the mean cost of its runs"
        + ("" if comparison.is_single_seed else f", vertical lines: 95 % t interval over seeds, {_CUT}")
        + (". Hollow: a single seed" if any(dot.n == 1 for dot in dots) else "")
        + ". Joined: no other point is better and cheaper; chance has its part in who stands there."
    )
    rows = (
        (dot.label, repr(dot.cost), repr(dot.value), dot.low, dot.high, dot.n, dot.is_front) for dot in dots
    )
    header = ("point", unit.replace(" ", "_"), "value", "low_95", "high_95", "n", "on_front")
    figure = Figure("quality", f"{comparison.metric} against time", caption, picture.svg, ())
    return save(figure, picture.png, csv_text(header, rows), target)


def _dots(comparison: Comparison) -> list[Dot]:
    labels, (least, most) = point_labels(comparison), bounds_of(comparison)
    found = []
    for point in comparison.points:
        hours = hours_of(point.point.name, comparison)
        cost = point.cost if point.cost is not None else hours
        if point.value is not None and cost is not None and math.isfinite(point.value.mean + cost):
            found.append((point, cost, point.value))
    sign = 1 if comparison.study.goal == "max" else -1
    dots = []
    for point, cost, value in found:
        is_beaten = any(
            other <= cost and sign * its.mean >= sign * value.mean and (other, its.mean) != (cost, value.mean)
            for _, other, its in found
        )
        is_labelled = not is_beaten or point.point.is_baseline or len(found) <= MOST_POINTS
        label = labels[point.point.name]
        low = None if value.low is None else max(least, value.low)
        high = None if value.high is None else min(most, value.high)
        dots.append(Dot(label, cost, value.mean, low, high, value.n, not is_beaten, is_labelled))
    return dots
