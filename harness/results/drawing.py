"""Charts drawn with matplotlib: a `Chart` in, its SVG and PNG out; one function per kind of chart.

The SVG carries colours as CSS variables with light fall-backs, so that the same picture follows the page's
light or dark scheme; text stays text. Ids are prefixed with the chart's name so that several pictures can
share one page. Lines of a comparison are labelled where they end, so no colour has to be matched by eye.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from harness.results.charts import Chart, Line, Mark, Panel
from harness.results.drawing_style import LIGHT, MARKERS, Palette, style, with_variables
from harness.wording import shortened

MOST_LABELLED = 8  # lines of a panel with a colour and a label of their own
_BINS = 600  # longer series are drawn as the mean of this many neighbourhoods, with their range behind it
_WIDTH = 9.6  # inches, of every picture that stands alone in its row
_LINE_HEIGHT = 0.15  # inches between two labels
_LONGEST_LABEL = 34
_DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1)), (0, (5, 1.5, 1, 1.5)))


def draw(chart: Chart) -> tuple[str, bytes]:
    """The chart as SVG for both colour schemes, and as a light PNG of fixed size."""
    svg, png = io.StringIO(), io.BytesIO()
    with rc_context({**style(MARKERS), "svg.hashsalt": chart.name}):
        canvas = _canvas(chart, MARKERS)
        canvas.patch.set_alpha(0)
        FigureCanvasSVG(canvas).print_svg(svg, metadata={"Date": None, "Creator": None})
    with rc_context(style(LIGHT)):
        FigureCanvasAgg(_canvas(chart, LIGHT)).print_png(png, metadata={"Software": None})
    return with_variables(_cleaned(svg.getvalue(), chart.name)), png.getvalue()


def _canvas(chart: Chart, palette: Palette) -> Canvas:
    panels, draw_panel = len(chart.panels), _KINDS[chart.kind]
    columns = {"curves": min(2, panels), "levels": 2 if panels == 4 else min(3, panels)}.get(chart.kind, 1)
    rows = math.ceil(panels / columns)
    size = {"metric": (4.8, 2.6), "validation": (7.4, 2.9)}.get(chart.kind, (_WIDTH, 3.9))
    if columns > 1 or chart.kind == "levels":
        size = (_WIDTH, 2.6 * rows + (0.5 if chart.kind == "levels" and rows == 1 else 0.0))
    canvas = Canvas(figsize=size, dpi=150, layout="constrained", facecolor="white")
    for number, panel in enumerate(chart.panels, start=1):
        axes = canvas.add_subplot(rows, columns, number)
        axes.patch.set_alpha(0)
        draw_panel(axes, palette, panel, chart, size[1] / rows)
        if panel.title:
            axes.set_title(shortened(panel.title, 48 if columns < 3 else 32), fontsize=9, loc="left")
        if chart.y and (number % columns == 1 or columns == 1):
            axes.set_ylabel(shortened(chart.y, 34))
        if chart.x == "step":
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7))
            axes.margins(x=0.02)
        axes.set_xlabel(chart.x)
    return canvas


# --- one run ------------------------------------------------------------------------------------------------


def _metric(axes: Any, palette: Palette, panel: Panel, chart: Chart, height: float) -> None:
    (line,) = panel.lines
    steps, values, attempts = np.array(line.x), np.array(line.y), np.array(line.attempts)
    finite = np.isfinite(values)
    for number in dict.fromkeys(attempts[finite].tolist()):
        part = finite & (attempts == number)
        x, low, mean, high = _binned(steps[part], values[part])
        if len(x) < part.sum():
            axes.fill_between(x, low, high, color=palette.lines[0], alpha=0.18, linewidth=0)
        marker = "o" if finite.sum() <= 40 else ""
        axes.plot(x, mean, color=palette.lines[0], linewidth=1.6, marker=marker, markersize=3.5)
    _mark_attempts(axes, palette, steps, attempts)


def _binned(steps: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Middle step, lowest, mean and highest value of at most `_BINS` neighbourhoods."""
    if len(steps) <= _BINS:
        return steps, values, values, values
    starts = np.linspace(0, len(steps), _BINS, endpoint=False).astype(int)
    counts = np.diff([*starts, len(steps)])
    return (
        np.add.reduceat(steps, starts) / counts,
        np.minimum.reduceat(values, starts),
        np.add.reduceat(values, starts) / counts,
        np.maximum.reduceat(values, starts),
    )


def _validation(axes: Any, palette: Palette, panel: Panel, chart: Chart, height: float) -> None:
    for colour, line in zip(palette.lines, panel.lines, strict=False):
        axes.plot(line.x, line.y, color=colour, linewidth=1.6, marker="o", markersize=4, label=line.label)
        for x, y, low, high in zip(line.x, line.y, line.low, line.high, strict=True):
            if low is not None and high is not None:
                ends = [[max(0.0, y - low)], [max(0.0, high - y)]]
                axes.errorbar([x], [y], yerr=ends, color=colour, fmt="none", capsize=3, linewidth=1.1)
    axes.set_ylim(-0.03, 1.03)
    axes.legend(loc="best", fontsize=9)
    steps = np.concatenate([line.x for line in panel.lines])
    _mark_attempts(axes, palette, steps, np.concatenate([line.attempts for line in panel.lines]))


def _mark_attempts(axes: Any, palette: Palette, steps: np.ndarray, attempts: np.ndarray) -> None:
    for number in np.unique(attempts)[1:]:
        start = steps[attempts == number].min()
        axes.axvline(start, color=palette.attempt, linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate(
            f"attempt {int(number)}", (start, 1.0), xycoords=("data", "axes fraction"), xytext=(3, 2),
            textcoords="offset points", fontsize=8, color=palette.attempt,
        )  # fmt: skip


# --- curves of several points -------------------------------------------------------------------------------


def _curves(axes: Any, palette: Palette, panel: Panel, chart: Chart, height: float) -> None:
    every = [line for each in chart.panels for line in each.lines]
    axes.set_ylim(*_limits([*(line.y for line in every), *(y for line in every for _, y in line.runs)]))
    shown = labelled(panel.lines, chart.goal == "max")
    ends = []
    for line in panel.lines:
        if line not in shown:
            axes.plot(line.x, line.y, color=palette.ink, linewidth=0.7, alpha=0.35)
    for index, line in enumerate(shown):
        colour = palette.ink if line.is_baseline else palette.lines[index % len(palette.lines)]
        dashes = _DASHES[1] if line.is_baseline else _DASHES[(index // len(palette.lines)) % len(_DASHES)]
        if line.low:
            axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.14, linewidth=0)
        for x, y in line.runs:
            axes.plot(x, y, color=colour, linewidth=0.6, alpha=0.4)
        marker = "o" if len(line.x) <= 25 else ""
        axes.plot(line.x, line.y, color=colour, linewidth=1.7, marker=marker, markersize=3, linestyle=dashes)
        ends.append((line.x[-1], line.y[-1], line.label, colour))
    _label_ends(axes, ends, height)


def labelled(lines: Sequence[Line], is_max: bool) -> list[Line]:
    """The lines with a colour of their own: all of few; of many the baseline, and those that end best."""
    if len(lines) <= MOST_LABELLED:
        return list(lines)
    by_end = sorted(lines, key=lambda line: line.y[-1], reverse=is_max)
    return sorted(by_end, key=lambda line: not line.is_baseline)[: MOST_LABELLED - 3]


def _label_ends(axes: Any, ends: Sequence[tuple[float, float, str, str]], height: float) -> None:
    """Write each label beside the end of its line, moved apart where they would overlap."""
    low, high = axes.get_ylim()
    gap = (high - low) * _LINE_HEIGHT / max(height - 0.9, 0.5)
    wanted = sorted(ends, key=lambda end: end[1])
    right = max((end[0] for end in ends), default=0.0)
    for (_, _, label, colour), y in zip(wanted, spread([end[1] for end in wanted], gap), strict=True):
        axes.annotate(
            shortened(label, _LONGEST_LABEL), (right, y), xytext=(6, 0), textcoords="offset points",
            va="center", fontsize=8, color=colour, annotation_clip=False,
        )  # fmt: skip


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """The rising places moved until neighbours are `gap` apart; those that crowd stay around their middle."""
    crowds: list[tuple[float, int]] = []  # middle of what was wanted, how many
    for place in wanted:
        middle, count = place, 1
        while crowds and middle - crowds[-1][0] < gap * (count + crowds[-1][1]) / 2:
            before, others = crowds.pop()
            middle, count = (middle * count + before * others) / (count + others), count + others
        crowds.append((middle, count))
    return [middle + gap * (index - (count - 1) / 2) for middle, count in crowds for index in range(count)]


def _limits(series: Iterable[Iterable[float]]) -> tuple[float, float]:
    """From the lowest to the highest value with a margin; bands may reach beyond and are cut."""
    values = [value for part in series for value in part if math.isfinite(value)]
    if not values:
        return (0.0, 1.0)
    low, high = min(values), max(values)
    margin = 0.12 * (high - low) or 0.05 * abs(high) or 0.5
    return (low - margin, high + margin)


# --- levels of a key ----------------------------------------------------------------------------------------


def _levels(axes: Any, palette: Palette, panel: Panel, chart: Chart, height: float) -> None:
    every = [mark for each in chart.panels for mark in each.marks]
    ends = [end for mark in every for end in (mark.low, mark.high) if end is not None]
    axes.set_ylim(*_limits([ends, *((mark.y, *mark.runs) for mark in every)]))
    places = _places(axes, panel.marks)
    axes.plot(places, [mark.y for mark in panel.marks], color=palette.lines[0], linewidth=1, alpha=0.6)
    for x, mark in zip(places, panel.marks, strict=True):
        axes.plot(
            [x] * len(mark.runs), mark.runs, linestyle="", marker="o", markersize=3, alpha=0.6, zorder=3,
            color=palette.ink, markeredgewidth=0,
        )  # fmt: skip
        if mark.low is not None and mark.high is not None:
            axes.plot([x, x], [mark.low, mark.high], color=palette.lines[0], linewidth=3, alpha=0.4)
        colour, marker = (palette.lines[1], "D") if mark.is_special else (palette.lines[0], "o")
        axes.plot([x], [mark.y], linestyle="", marker=marker, markersize=6, color=colour)
        if mark.is_special:
            axes.axhline(mark.y, color=palette.lines[1], linewidth=1, linestyle=_DASHES[1])


def _places(axes: Any, marks: Sequence[Mark]) -> list[float]:
    """Where the levels stand: as numbers, on a logarithmic axis when they span more than a factor of ten; by
    name, one beside the other, when they are no numbers."""
    numbers = [mark.x for mark in marks if mark.x is not None]
    places = numbers
    if len(numbers) < len(marks) or len(set(numbers)) < len(numbers):
        places = [float(index) for index in range(len(marks))]
    elif min(numbers) > 0 and max(numbers) > 10 * min(numbers):
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


def _quality(axes: Any, palette: Palette, panel: Panel, chart: Chart, height: float) -> None:
    """What each point came to over what it took; the points that no other beats in both are joined."""
    axes.set_ylim(*_limits([[mark.y for mark in panel.marks]]))
    front = sorted((mark.x or 0.0, mark.y) for mark in panel.marks if mark.is_special)
    axes.step(*zip(*front, strict=True), where="post", color=palette.lines[1], linewidth=1.1, alpha=0.8)
    for mark in panel.marks:
        colour = palette.lines[1] if mark.is_special else palette.lines[0]
        if mark.low is not None and mark.high is not None:
            axes.plot([mark.x] * 2, [mark.low, mark.high], color=colour, linewidth=0.9, alpha=0.35)
        axes.plot(
            [mark.x], [mark.y], linestyle="", marker="o", markersize=5.5, markeredgecolor=colour,
            markerfacecolor="none" if mark.n == 1 else colour, markeredgewidth=1.3,
        )  # fmt: skip
    _label_marks(axes, palette, panel.marks)
    axes.margins(x=0.06)


def _label_marks(axes: Any, palette: Palette, marks: Sequence[Mark]) -> None:
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
            ha="right" if is_right else "left", fontsize=8, color=palette.ink,
        )  # fmt: skip


_KINDS: dict[str, Callable[[Any, Palette, Panel, Chart, float], None]] = {
    "metric": _metric,
    "validation": _validation,
    "curves": _curves,
    "levels": _levels,
    "quality": _quality,
}


def _cleaned(svg: str, name: str) -> str:
    """Only the <svg> element, scalable, with ids of its own."""
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg [^>]*?) ?width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg [^>]*?) ?height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r"url\(#", f"url(#{name}-", svg)
    return re.sub(r'xlink:href="#', f'xlink:href="#{name}-', svg)
