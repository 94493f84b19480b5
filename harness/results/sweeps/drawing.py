"""The pictures of a comparison: pure functions from prepared lines and dots to `drawing.Picture`s.

Lines are labelled where they end, so that nobody has to match colours with a legend.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FixedLocator, NullLocator

from harness.results.drawing import Palette, Picture, label_steps, picture
from harness.results.sweeps.series import CurvePanel, Dot, KeyPanel, LevelMark, Line

MOST_LABELLED = 8  # lines of a panel with a colour and a label of their own
_WIDTH = 9.6  # inches, of every picture that stands alone in its row
_LINE_HEIGHT = 0.15  # inches between two labels
_LONGEST_LABEL = 34
_LONGEST_TICK = 14
_DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1)), (0, (5, 1.5, 1, 1.5)))


# --- curves -------------------------------------------------------------------------------------------------


def curves(panels: Sequence[CurvePanel], metric: str, is_max: bool) -> Picture:
    """One panel in full width, or two in a row, all with the same height of the metric."""
    columns = min(2, len(panels))
    rows = math.ceil(len(panels) / columns)
    size = (_WIDTH, 3.9 if rows == columns == 1 else 2.6 * rows)
    limits = _limits([values for panel in panels for line in panel.lines for _, values in _drawn(line)])

    def draw(canvas: Canvas, palette: Palette) -> None:
        for number, panel in enumerate(panels, start=1):
            axes = canvas.add_subplot(rows, columns, number)
            axes.set_ylim(*limits)
            _draw_lines(axes, palette, panel.lines, is_max, size[1] / rows)
            axes.set_title(_cut(panel.title, 48), fontsize=9, loc="left")
            label_steps(axes)
            if number % columns == 1 or columns == 1:
                axes.set_ylabel(_cut(metric, 40))

    return picture("curves", size, draw)


def _drawn(line: Line) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    return (*line.runs, (line.steps, line.mean))


def _draw_lines(axes: Any, palette: Palette, lines: Sequence[Line], is_max: bool, height: float) -> None:
    shown = labelled(lines, is_max)
    for line in lines:
        if line not in shown:
            axes.plot(line.steps, line.mean, color=palette.ink, linewidth=0.7, alpha=0.35)
    ends = []
    colours = iter(range(len(lines)))
    for line in shown:
        index = next(colours)
        colour = palette.ink if line.is_baseline else palette.lines[index % len(palette.lines)]
        dashes = _DASHES[1] if line.is_baseline else _DASHES[(index // len(palette.lines)) % len(_DASHES)]
        if line.low is not None and line.high is not None:
            axes.fill_between(line.steps, line.low, line.high, color=colour, alpha=0.14, linewidth=0)
        for steps, values in line.runs:
            axes.plot(steps, values, color=colour, linewidth=0.6, alpha=0.4)
        marker = "o" if len(line.steps) <= 25 else ""
        axes.plot(
            line.steps, line.mean, color=colour, linewidth=1.7, marker=marker, markersize=3, linestyle=dashes
        )
        ends.append((float(line.steps[-1]), float(line.mean[-1]), line.label, colour))
    _label_ends(axes, ends, height)


def labelled(lines: Sequence[Line], is_max: bool) -> list[Line]:
    """The lines with a colour of their own: all of few; of many the baseline, and those that end best."""
    if len(lines) <= MOST_LABELLED:
        return list(lines)
    by_end = sorted(lines, key=lambda line: float(line.mean[-1]), reverse=is_max)
    kept = [line for line in by_end if line.is_baseline] + [line for line in by_end if not line.is_baseline]
    return kept[: MOST_LABELLED - 3]


def _label_ends(axes: Any, ends: Sequence[tuple[float, float, str, str]], height: float) -> None:
    """Write each label beside the end of its line, moved apart where they would overlap."""
    low, high = axes.get_ylim()
    gap = (high - low) * _LINE_HEIGHT / max(height - 0.9, 0.5)
    wanted = sorted(ends, key=lambda end: end[1])
    places = spread([end[1] for end in wanted], gap)
    right = max((end[0] for end in ends), default=0.0)
    for (_, _, label, colour), y in zip(wanted, places, strict=True):
        axes.annotate(
            _cut(label, _LONGEST_LABEL),
            (right, y),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=colour,
            annotation_clip=False,
        )


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


def _limits(series: Sequence[np.ndarray]) -> tuple[float, float]:
    """From the lowest to the highest value with a margin; bands may reach beyond and are cut."""
    values = np.concatenate([part[np.isfinite(part)] for part in series]) if series else np.array([])
    if not len(values):
        return (0.0, 1.0)
    low, high = float(values.min()), float(values.max())
    margin = 0.12 * (high - low) or 0.05 * abs(high) or 0.5
    return (low - margin, high + margin)


# --- sensitivity --------------------------------------------------------------------------------------------


def sensitivity(panels: Sequence[KeyPanel], metric: str) -> Picture:
    """One small panel per key, all with the same height of the metric."""
    columns = 2 if len(panels) == 4 else min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    size = (_WIDTH, 2.6 * rows + (0.5 if rows == 1 else 0.0))
    marks = [mark for panel in panels for mark in panel.marks]
    limits = _limits([np.array([*mark.runs, mark.mean, *_ends(mark)]) for mark in marks])

    def draw(canvas: Canvas, palette: Palette) -> None:
        for number, panel in enumerate(panels, start=1):
            axes = canvas.add_subplot(rows, columns, number)
            _draw_key(axes, palette, panel)
            axes.set_ylim(*limits)
            axes.set_title(_cut(panel.title, 32), fontsize=9, loc="left")
            if number % columns == 1 or columns == 1:
                axes.set_ylabel(_cut(metric, 34))

    return picture("sensitivity", size, draw)


def _ends(mark: LevelMark) -> tuple[float, ...]:
    return () if mark.low is None or mark.high is None else (mark.low, mark.high)


def _draw_key(axes: Any, palette: Palette, panel: KeyPanel) -> None:
    places = _places(axes, panel.marks)
    axes.plot(places, [mark.mean for mark in panel.marks], color=palette.line_1, linewidth=1, alpha=0.6)
    for x, mark in zip(places, panel.marks, strict=True):
        axes.plot(
            [x] * len(mark.runs), mark.runs, linestyle="", marker="o", markersize=3, alpha=0.6, zorder=3,
            color=palette.ink, markeredgewidth=0,
        )  # fmt: skip
        if mark.low is not None and mark.high is not None:
            axes.plot([x, x], [mark.low, mark.high], color=palette.line_1, linewidth=3, alpha=0.4)
        axes.plot(
            [x], [mark.mean], linestyle="", marker="D" if mark.is_baseline else "o", markersize=6,
            color=palette.line_2 if mark.is_baseline else palette.line_1,
        )  # fmt: skip
        if mark.is_baseline:
            axes.axhline(mark.mean, color=palette.line_2, linewidth=1, linestyle=_DASHES[1])


def _places(axes: Any, marks: Sequence[LevelMark]) -> list[float]:
    """Where the levels stand: as numbers, on a logarithmic axis when they span more than a factor of ten; by
    name, one beside the other, when they are no numbers."""
    numbers = [mark.number for mark in marks if mark.number is not None]
    if len(numbers) < len(marks) or len(set(numbers)) < len(numbers):
        places = [float(index) for index in range(len(marks))]
        axes.set_xlim(-0.5, len(marks) - 0.5)
    elif min(numbers) > 0 and max(numbers) > 10 * min(numbers):
        places = numbers
        axes.set_xscale("log")
        axes.margins(x=0.15)
    elif max(numbers) > 10 * min(abs(number) for number in numbers if number or len(numbers) == 1):
        places = [float(sorted(numbers).index(number)) for number in numbers]  # such as 0, 0.001, 0.1
        axes.set_xlim(-0.5, len(marks) - 0.5)
    else:
        places = numbers
        axes.margins(x=0.15)
    labels = [_cut(mark.label, _LONGEST_TICK) for mark in marks]
    axes.xaxis.set_major_locator(FixedLocator(places))
    axes.xaxis.set_minor_locator(NullLocator())
    is_crowded = len(labels) > 5 or max(map(len, labels)) > 7
    axes.set_xticks(places, labels, fontsize=8, rotation=35 if is_crowded else 0,
                    ha="right" if is_crowded else "center")  # fmt: skip
    return places


# --- quality against time -----------------------------------------------------------------------------------


def quality(dots: Sequence[Dot], metric: str, cost: str) -> Picture:
    """What each point came to over what it took; the points that no other beats in both are joined."""
    limits = _limits([np.array([dot.value for dot in dots])])

    def draw(canvas: Canvas, palette: Palette) -> None:
        axes = canvas.add_subplot()
        axes.set_ylim(*limits)
        front = sorted((dot.cost, dot.value) for dot in dots if dot.is_front)
        axes.step(*zip(*front, strict=True), where="post", color=palette.line_2, linewidth=1.1, alpha=0.8)
        for dot in dots:
            colour = palette.line_2 if dot.is_front else palette.line_1
            if dot.low is not None and dot.high is not None:
                axes.plot([dot.cost] * 2, [dot.low, dot.high], color=colour, linewidth=0.9, alpha=0.35)
            axes.plot(
                [dot.cost], [dot.value], linestyle="", marker="o", markersize=5.5, markeredgecolor=colour,
                markerfacecolor="none" if dot.n == 1 else colour, markeredgewidth=1.3,
            )  # fmt: skip
        _label_dots(axes, palette, dots)
        axes.set_xlabel(cost)
        axes.set_ylabel(_cut(metric, 40))
        axes.margins(x=0.06)

    return picture("quality", (_WIDTH, 3.9), draw)


def _label_dots(axes: Any, palette: Palette, dots: Sequence[Dot]) -> None:
    """Names beside their dots, on the side with more room; one that would cover another is left out."""
    costs = [dot.cost for dot in dots]
    middle, span = (min(costs) + max(costs)) / 2, (max(costs) - min(costs)) or 1.0
    low, high = axes.get_ylim()
    taken: list[tuple[float, float]] = []
    for dot in sorted(dots, key=lambda each: not each.is_front):
        if not dot.is_labelled:
            continue
        place = ((dot.cost - min(costs)) / span, (dot.value - low) / (high - low))
        if any(abs(place[0] - x) < 0.25 and abs(place[1] - y) < 0.06 for x, y in taken):
            continue
        taken.append(place)
        is_right = dot.cost > middle
        axes.annotate(
            f"{_cut(dot.label, _LONGEST_LABEL)} (n = {dot.n})",
            (dot.cost, dot.value),
            xytext=(-7 if is_right else 7, 5),
            textcoords="offset points",
            ha="right" if is_right else "left",
            fontsize=8,
            color=palette.ink,
        )


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"
