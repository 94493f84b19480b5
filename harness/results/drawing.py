"""Charts drawn with matplotlib: a `Chart` as a page shows it in, its SVG file out.

The file is for papers, slides and readers without scripts. It carries colours as CSS variables with light
fall-backs, so that the picture follows the reader's light or dark scheme; text stays text.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from harness.results.charts import Chart, Line, Mark, Panel, labelled
from harness.results.drawing_style import BAD, INK, LINES, TAKEN_OVER, standalone, style
from harness.wording import shortened

_WIDTH = 9.6  # inches, of every picture that stands alone in its row
_LONGEST_LABEL = 34
_DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1)), (0, (5, 1.5, 1, 1.5)))


def draw(chart: Chart) -> str:
    """The chart as an SVG file for both colour schemes."""
    svg = io.StringIO()
    with rc_context({**style(), "svg.hashsalt": chart.name}):
        FigureCanvasSVG(_canvas(chart)).print_svg(svg, metadata={"Date": None, "Creator": None})
    return standalone(svg.getvalue(), chart.title)


def _canvas(chart: Chart) -> Canvas:
    panels = len(chart.panels)
    columns = min(2, panels) if chart.kind != "levels" or panels == 4 else min(3, panels)
    rows, is_small = math.ceil(panels / columns), panels == 1 and chart.kind == "metric"
    size = (4.8, 2.6) if is_small else (_WIDTH, 3.1 * rows)
    canvas, first = Canvas(figsize=size, dpi=150, layout="constrained"), None
    canvas.patch.set_alpha(0)
    for number, panel in enumerate(chart.panels, start=1):
        axes = canvas.add_subplot(rows, columns, number, sharey=first if chart.y else None)
        first = first or axes
        axes.patch.set_alpha(0)
        (_marks if panel.marks else _lines)(axes, panel, chart)
        axes.set_title(shortened(panel.title, 48 if columns < 3 else 32), fontsize=9, loc="left")
        axes.set_ylabel(
            shortened(panel.y or chart.y, 34) if panel.y or number % columns == 1 % columns else ""
        )
        axes.set_xlabel(chart.x)
    return canvas


def _lines(axes: Any, panel: Panel, chart: Chart) -> None:
    shown = labelled(panel.lines, chart.goal == "max")
    for line in panel.lines:
        if line not in shown:
            axes.plot(line.x, line.y, color=INK, linewidth=0.7, alpha=0.35)
    for index, line in enumerate(shown):
        colour = INK if line.is_baseline else LINES[index % len(LINES)]
        dashes = _DASHES[1] if line.is_baseline else _DASHES[(index // len(LINES)) % len(_DASHES)]
        if line.low:
            ends = (np.array(end, dtype=float) for end in (line.low, line.high))
            axes.fill_between(line.x, *ends, color=colour, alpha=0.14, linewidth=0)
        for x, y in line.runs:
            axes.plot(x, y, color=colour, linewidth=0.6, alpha=0.4)
        look = {"marker": "o" if len(line.x) <= 40 else "", "markersize": 3, "linestyle": dashes}
        values = np.array(line.y, dtype=float)
        finite, label = np.where(np.isfinite(values), values, np.nan), shortened(line.label, _LONGEST_LABEL)
        axes.plot(line.x, finite, color=colour, linewidth=1.6, label=label, **look)
        for start, end in gaps(line):
            axes.axvspan(start, end, color=BAD, alpha=0.25)
            axes.annotate("NaN", (start, 0.02), xycoords=("data", "axes fraction"), color=BAD)
        _mark_attempts(axes, line)
    axes.margins(x=0.02)
    if chart.x in ("step", "row number"):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7))
    if panel.scale:
        known = [value for line in shown for value in line.y if math.isfinite(value) and value]
        low, high = min(known), min(max(known), 1e200)  # further up, no ticks can be placed
        axes.set_ylim(*((low / 1.5, high * 1.5) if panel.scale == "log" else (min(low, 0.0), high)))
        more = {} if panel.scale == "log" else {"linthresh": float(np.median(np.abs(known)))}
        axes.set_yscale("symlog" if more else "log", **more)
    if len(shown) > 1:
        axes.legend(loc="best", fontsize=8)


def gaps(line: Line) -> Iterator[tuple[float, float]]:
    """Where the values are no finite numbers: the first and the last place of each such stretch."""
    pairs = zip(line.x, line.y, strict=True)
    for is_finite, stretch in groupby(pairs, key=lambda pair: math.isfinite(pair[1])):
        places = [x for x, _ in stretch]
        if not is_finite:
            yield places[0], places[-1]


def _mark_attempts(axes: Any, line: Line) -> None:
    """A dashed line where each attempt but the first takes over."""
    starts = {number: x for x, number in reversed(list(zip(line.x, line.attempts, strict=False)))}
    for number in sorted(starts)[1:]:
        axes.axvline(starts[number], color=TAKEN_OVER, linewidth=1, linestyle=_DASHES[1])
        place = {"xytext": (3, 2), "textcoords": "offset points", "xycoords": ("data", "axes fraction")}
        axes.annotate(f"attempt {number}", (starts[number], 1.0), fontsize=8, color=TAKEN_OVER, **place)


def _marks(axes: Any, panel: Panel, chart: Chart) -> None:
    """Values with their intervals: the levels of a key, or points over what they took, of which those that no
    other beats in both are joined."""
    marks, is_levels = panel.marks, chart.kind == "levels"
    joined = [mark for mark in marks if is_levels or mark.is_special]
    path = {"drawstyle": "default" if is_levels else "steps-post", "linewidth": 1, "alpha": 0.6}
    axes.plot(*_columns(joined), color=LINES[0 if is_levels else 1], **path)
    for mark in marks:
        colour, look = LINES[mark.is_special], {"linestyle": "", "marker": "o"}
        if mark.low is not None and mark.high is not None:
            axes.plot([mark.x] * 2, [mark.low, mark.high], color=colour, linewidth=2.5, alpha=0.4)
        axes.plot([mark.x] * len(mark.runs), mark.runs, color=INK, markersize=2.5, alpha=0.6, **look)
        fill = "none" if mark.n == 1 and not is_levels else colour
        axes.plot([mark.x], [mark.y], color=colour, markersize=5.5, markerfacecolor=fill, **look)
        if mark.is_labelled and not is_levels:
            label = f"{shortened(mark.label, _LONGEST_LABEL)} (n = {mark.n})"
            axes.annotate(label, (mark.x, mark.y), (5, 5), textcoords="offset points", fontsize=7)
        elif mark.is_special:
            axes.axhline(mark.y, color=colour, linewidth=1, linestyle=_DASHES[1])
    axes.margins(x=0.15)
    if is_levels:
        labels = [shortened(mark.label, 14) for mark in marks]
        is_crowded = len(labels) > 5 or max(map(len, labels)) > 7
        axes.set_xticks(_columns(marks)[0], labels, fontsize=8, rotation=35 if is_crowded else 0)


def _columns(marks: Iterable[Mark]) -> tuple[list[float], list[float]]:
    ordered = sorted(((mark.x or 0.0, mark.y) for mark in marks), key=lambda place: place[0])
    return [x for x, _ in ordered], [y for _, y in ordered]
