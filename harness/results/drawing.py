"""Charts drawn with matplotlib: a `Chart` in, its SVG out; one function per kind of panel.

The SVG is a file for papers, slides and readers without scripts; the page draws the same chart itself. It
carries colours as CSS variables with light fall-backs, so that the picture follows the reader's light or dark
scheme; text stays text.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from harness.results.charts import Chart, Line, Mark, Panel
from harness.results.drawing_style import MARKERS, standalone, style
from harness.wording import shortened

MOST_LABELLED = 8  # lines of a panel with a colour and a label of their own
_WIDTH = 9.6  # inches, of every picture that stands alone in its row
_LONGEST_LABEL = 34
_DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1)), (0, (5, 1.5, 1, 1.5)))


def draw(chart: Chart) -> str:
    """The chart as an SVG file for both colour schemes."""
    svg = io.StringIO()
    with rc_context({**style(MARKERS), "svg.hashsalt": chart.name}):
        canvas = _canvas(chart)
        canvas.patch.set_alpha(0)
        FigureCanvasSVG(canvas).print_svg(svg, metadata={"Date": None, "Creator": None})
    return standalone(svg.getvalue(), chart.title)


def _canvas(chart: Chart) -> Canvas:
    panels = len(chart.panels)
    columns = min(2, panels) if chart.kind != "levels" else 2 if panels == 4 else min(3, panels)
    rows = math.ceil(panels / columns)
    size = {"metric": (4.8, 2.6), "validation": (7.4, 2.9)}.get(chart.kind, (_WIDTH, 3.9))
    if columns > 1 or chart.kind == "levels":
        size = (_WIDTH, 2.6 * rows + (0.5 if chart.kind == "levels" and rows == 1 else 0.0))
    canvas = Canvas(figsize=size, dpi=150, layout="constrained")
    for number, panel in enumerate(chart.panels, start=1):
        axes = canvas.add_subplot(rows, columns, number)
        axes.patch.set_alpha(0)
        _KINDS.get(chart.kind, _lines)(axes, panel, chart)
        if panel.title:
            axes.set_title(shortened(panel.title, 48 if columns < 3 else 32), fontsize=9, loc="left")
        if panel.y or (chart.y and (number % columns == 1 or columns == 1)):
            axes.set_ylabel(shortened(panel.y or chart.y, 34))
        axes.set_xlabel(chart.x)
    return canvas


# --- lines --------------------------------------------------------------------------------------------------


def _lines(axes: Any, panel: Panel, chart: Chart) -> None:
    shown = labelled(panel.lines, chart.goal == "max")
    for line in panel.lines:
        if line not in shown:
            axes.plot(line.x, line.y, color=MARKERS.ink, linewidth=0.7, alpha=0.35)
    for index, line in enumerate(shown):
        colour = MARKERS.ink if line.is_baseline else MARKERS.lines[index % len(MARKERS.lines)]
        dashes = _DASHES[1] if line.is_baseline else _DASHES[(index // len(MARKERS.lines)) % len(_DASHES)]
        if line.low:
            ends = (np.array(end, dtype=float) for end in (line.low, line.high))
            axes.fill_between(line.x, *ends, color=colour, alpha=0.14, linewidth=0)
        for x, y in line.runs:
            axes.plot(x, y, color=colour, linewidth=0.6, alpha=0.4)
        marker = {"marker": "o" if len(line.x) <= 40 else "", "markersize": 3, "label": line.label}
        values = np.array(line.y, dtype=float)
        finite = np.where(np.isfinite(values), values, np.nan)
        axes.plot(line.x, finite, color=colour, linewidth=1.6, linestyle=dashes, **marker)
        for first, last in gaps(line):
            axes.axvspan(first, last, color=MARKERS.bad, alpha=0.25)
            axes.annotate("NaN", (first, 0.02), xycoords=("data", "axes fraction"), color=MARKERS.bad)
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
    elif chart.kind == "curves":
        every = [line for each in chart.panels for line in each.lines]
        axes.set_ylim(*_limits([*(line.y for line in every), *(y for line in every for _, y in line.runs)]))
    if len(shown) > 1:
        labels = [shortened(line.label, _LONGEST_LABEL) for line in shown]
        axes.legend(axes.get_legend_handles_labels()[0], labels, loc="best", fontsize=8)


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
        axes.axvline(starts[number], color=MARKERS.attempt, linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate(
            f"attempt {number}", (starts[number], 1.0), xycoords=("data", "axes fraction"), xytext=(3, 2),
            textcoords="offset points", fontsize=8, color=MARKERS.attempt,
        )  # fmt: skip


def labelled(lines: Sequence[Line], is_max: bool) -> list[Line]:
    """The lines with a colour of their own: all of few; of many the baseline, and those that end best."""
    if len(lines) <= MOST_LABELLED:
        return list(lines)
    by_end = sorted(lines, key=lambda line: line.y[-1], reverse=is_max)
    return sorted(by_end, key=lambda line: not line.is_baseline)[: MOST_LABELLED - 3]


def _limits(series: Iterable[Iterable[float]]) -> tuple[float, float]:
    """From the lowest to the highest value with a margin; bands may reach beyond and are cut."""
    values = [value for part in series for value in part if math.isfinite(value)]
    if not values:
        return (0.0, 1.0)
    low, high = min(values), max(values)
    margin = 0.12 * (high - low) or 0.05 * abs(high) or 0.5
    return (low - margin, high + margin)


# --- levels of a key ----------------------------------------------------------------------------------------


def _levels(axes: Any, panel: Panel, chart: Chart) -> None:
    every = [mark for each in chart.panels for mark in each.marks]
    ends = [end for mark in every for end in (mark.low, mark.high) if end is not None]
    axes.set_ylim(*_limits([ends, *((mark.y, *mark.runs) for mark in every)]))
    places = _places(axes, panel)
    axes.plot(places, [mark.y for mark in panel.marks], color=MARKERS.lines[0], linewidth=1, alpha=0.6)
    for x, mark in zip(places, panel.marks, strict=True):
        axes.plot(
            [x] * len(mark.runs), mark.runs, linestyle="", marker="o", markersize=3, alpha=0.6, zorder=3,
            color=MARKERS.ink, markeredgewidth=0,
        )  # fmt: skip
        if mark.low is not None and mark.high is not None:
            axes.plot([x, x], [mark.low, mark.high], color=MARKERS.lines[0], linewidth=3, alpha=0.4)
        colour, marker = (MARKERS.lines[1], "D") if mark.is_special else (MARKERS.lines[0], "o")
        axes.plot([x], [mark.y], linestyle="", marker=marker, markersize=6, color=colour)
        if mark.is_special:
            axes.axhline(mark.y, color=MARKERS.lines[1], linewidth=1, linestyle=_DASHES[1])


def _places(axes: Any, panel: Panel) -> list[float]:
    """Where the levels stand: as numbers, on the panel's kind of axis; by name, one beside the other, when
    they are no numbers."""
    marks = panel.marks
    numbers = [mark.x for mark in marks if mark.x is not None]
    places = numbers
    if len(numbers) < len(marks) or len(set(numbers)) < len(numbers):
        places = [float(index) for index in range(len(marks))]
    elif panel.x_scale == "log":
        axes.set_xscale("log")
    elif max(numbers) > 10 * min(abs(number) for number in numbers if number or len(numbers) == 1):
        places = [float(sorted(numbers).index(number)) for number in numbers]  # such as 0, 0.001, 0.1
    if places is numbers:
        axes.margins(x=0.15)
    else:
        axes.set_xlim(-0.5, len(marks) - 0.5)
    labels = [shortened(mark.label, 14) for mark in marks]
    axes.xaxis.set_major_locator(FixedLocator(places))
    axes.xaxis.set_minor_locator(NullLocator())
    is_crowded = len(labels) > 5 or max(map(len, labels)) > 7
    turned = {"rotation": 35, "ha": "right"} if is_crowded else {"rotation": 0, "ha": "center"}
    axes.set_xticks(places, labels, fontsize=8, **turned)
    return places


# --- quality against time -----------------------------------------------------------------------------------


def _quality(axes: Any, panel: Panel, chart: Chart) -> None:
    """What each point came to over what it took; the points that no other beats in both are joined."""
    axes.set_ylim(*_limits([[mark.y for mark in panel.marks]]))
    front = sorted((mark.x or 0.0, mark.y) for mark in panel.marks if mark.is_special)
    axes.step(*zip(*front, strict=True), where="post", color=MARKERS.lines[1], linewidth=1.1, alpha=0.8)
    for mark in panel.marks:
        colour = MARKERS.lines[1] if mark.is_special else MARKERS.lines[0]
        if mark.low is not None and mark.high is not None:
            axes.plot([mark.x] * 2, [mark.low, mark.high], color=colour, linewidth=0.9, alpha=0.35)
        axes.plot(
            [mark.x], [mark.y], linestyle="", marker="o", markersize=5.5, markeredgecolor=colour,
            markerfacecolor="none" if mark.n == 1 else colour, markeredgewidth=1.3,
        )  # fmt: skip
    _label_marks(axes, panel.marks)
    axes.margins(x=0.06)


def _label_marks(axes: Any, marks: Sequence[Mark]) -> None:
    """Names beside their dots, on the side with more room; one that would cover another is left out."""
    costs = [mark.x or 0.0 for mark in marks]
    middle, span = (min(costs) + max(costs)) / 2, (max(costs) - min(costs)) or 1.0
    low, high = axes.get_ylim()
    taken: list[tuple[float, float]] = []
    for mark in sorted(marks, key=lambda each: not each.is_special):
        cost = mark.x or 0.0
        place = ((cost - min(costs)) / span, (mark.y - low) / (high - low))
        covers = any(abs(place[0] - x) < 0.25 and abs(place[1] - y) < 0.06 for x, y in taken)
        if covers or not mark.is_labelled:
            continue
        taken.append(place)
        is_right = cost > middle
        axes.annotate(
            f"{shortened(mark.label, _LONGEST_LABEL)} (n = {mark.n})", (cost, mark.y),
            xytext=(-7 if is_right else 7, 5), textcoords="offset points",
            ha="right" if is_right else "left", fontsize=8, color=MARKERS.ink,
        )  # fmt: skip


_KINDS: dict[str, Callable[[Any, Panel, Chart], None]] = {"levels": _levels, "quality": _quality}
