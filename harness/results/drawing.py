"""Drawing with matplotlib: pure functions from series to SVG and PNG.

The SVG carries colours as CSS variables with light fall-backs, so that the same picture follows the page's
light or dark scheme; text stays text. Ids are prefixed with the figure's name so that several pictures can
share one page.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from harness.results.types import Fact, Series

_BINS = 600  # longer series are drawn as the mean of this many neighbourhoods, with their range behind it
_SIZE, _WIDE = (4.8, 2.6), (7.4, 2.9)  # inches; validation stands alone in its row


@dataclass(frozen=True)
class _Palette:
    """Colours by role, as #rrggbb."""

    ink: str
    grid: str
    line_1: str
    line_2: str
    attempt: str


_LIGHT = _Palette("#57606a", "#e4e7eb", "#2563a8", "#b4631a", "#8a6fb0")
_DARK = _Palette("#9aa4af", "#2d333b", "#6cb0f5", "#e8a35c", "#b79ce0")
# Colours nobody else uses, so that they can be found in the SVG and turned into variables.
_MARKERS = _Palette("#010203", "#010204", "#010205", "#010206", "#010207")


@dataclass(frozen=True)
class Picture:
    """One drawing, twice."""

    svg: str
    png: bytes


def line(series: Series, name: str) -> Picture | None:
    """A metric over the steps; None when it has no finite value."""
    if not np.isfinite(series.values).any():
        return None
    return _picture(name, _SIZE, lambda axes, palette: _draw_line(axes, palette, series))


def validation(curves: Mapping[str, Sequence[tuple[int, int, Fact]]]) -> Picture | None:
    """Pass rates over the steps with their intervals; each point is (step, attempt, fact)."""
    if not any(points for points in curves.values()):
        return None
    return _picture("validation", _WIDE, lambda axes, palette: _draw_validation(axes, palette, curves))


def standalone(svg: str) -> str:
    """The SVG as a file of its own, with both colour schemes in it."""
    light, dark = colour_variables(is_dark=False), colour_variables(is_dark=True)
    style = (
        f"<style>svg{{{light} background:#ffffff}} "
        f"@media (prefers-color-scheme:dark){{svg{{{dark} background:#14181d}}}}</style>"
    )
    head, bracket, rest = svg.partition(">")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{head}{bracket}{style}{rest}\n'


def colour_variables(is_dark: bool) -> str:
    """The CSS declarations of the figures' colours for a page."""
    palette = vars(_DARK if is_dark else _LIGHT)
    return " ".join(f"--fig-{role.replace('_', '-')}: {colour};" for role, colour in palette.items())


def _draw_line(axes: Any, palette: _Palette, series: Series) -> None:
    finite = np.isfinite(series.values)
    steps, values, attempts = series.steps[finite], series.values[finite], series.attempts[finite]
    for number in dict.fromkeys(attempts.tolist()):
        part = attempts == number
        x, low, mean, high = _binned(steps[part], values[part])
        if len(x) < part.sum():
            axes.fill_between(x, low, high, color=palette.line_1, alpha=0.18, linewidth=0)
        marker = "o" if len(steps) <= 40 else ""
        axes.plot(x, mean, color=palette.line_1, linewidth=1.6, marker=marker, markersize=3.5)
    _mark_attempts(axes, palette, series.steps, series.attempts)


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


def _draw_validation(
    axes: Any, palette: _Palette, curves: Mapping[str, Sequence[tuple[int, int, Fact]]]
) -> None:
    steps: list[int] = []
    attempts: list[int] = []
    for colour, (column, points) in zip((palette.line_1, palette.line_2), curves.items(), strict=False):
        x = [step for step, _, _ in points]
        y = [fact.value for _, _, fact in points]
        axes.plot(x, y, color=colour, linewidth=1.6, marker="o", markersize=4, label=column)
        with_interval = [(step, fact) for step, _, fact in points if fact.interval is not None]
        if with_interval:
            axes.errorbar(
                [step for step, _ in with_interval],
                [fact.value for _, fact in with_interval],
                yerr=_errors([fact for _, fact in with_interval]),
                color=colour,
                fmt="none",
                capsize=3,
                linewidth=1.1,
            )
        steps += x
        attempts += [attempt for _, attempt, _ in points]
    axes.set_ylim(-0.03, 1.03)
    axes.legend(loc="best", fontsize=9)
    _mark_attempts(axes, palette, np.array(steps), np.array(attempts))


def _errors(facts: Sequence[Fact]) -> list[list[float]]:
    """How far the intervals reach below and above their values."""
    pairs = [(fact.value, fact.interval) for fact in facts if fact.interval is not None]
    below = [max(0.0, value - interval.low) for value, interval in pairs]
    above = [max(0.0, interval.high - value) for value, interval in pairs]
    return [below, above]


def _mark_attempts(axes: Any, palette: _Palette, steps: np.ndarray, attempts: np.ndarray) -> None:
    """A dashed line where a later attempt takes over."""
    first = attempts.min() if len(attempts) else 0
    for number in np.unique(attempts):
        if number == first:
            continue
        start = steps[attempts == number].min()
        axes.axvline(start, color=palette.attempt, linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate(
            f"attempt {number}",
            (start, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(3, 2),
            textcoords="offset points",
            fontsize=8,
            color=palette.attempt,
        )


def _picture(name: str, size: tuple[float, float], draw: Callable[[Any, _Palette], None]) -> Picture:
    svg, png = io.StringIO(), io.BytesIO()
    with rc_context({**_style(_MARKERS), "svg.hashsalt": name}):
        canvas = _canvas(size, draw, _MARKERS)
        canvas.patch.set_alpha(0)
        FigureCanvasSVG(canvas).print_svg(svg, metadata={"Date": None, "Creator": None})
    with rc_context(_style(_LIGHT)):
        FigureCanvasAgg(_canvas(size, draw, _LIGHT)).print_png(png, metadata={"Software": None})
    return Picture(_with_variables(_cleaned(svg.getvalue(), name)), png.getvalue())


def _canvas(size: tuple[float, float], draw: Callable[[Any, _Palette], None], palette: _Palette) -> Canvas:
    canvas = Canvas(figsize=size, dpi=150, layout="constrained", facecolor="white")
    axes = canvas.add_subplot()
    draw(axes, palette)
    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7))
    axes.margins(x=0.02)
    axes.patch.set_alpha(0)
    return canvas


def _style(palette: _Palette) -> dict[str, Any]:
    return {
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.size": 9,
        "axes.edgecolor": palette.grid,
        "axes.labelcolor": palette.ink,
        "text.color": palette.ink,
        "xtick.color": palette.ink,
        "ytick.color": palette.ink,
        "xtick.major.size": 0,
        "ytick.major.size": 0,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.spines.left": False,
        "axes.axisbelow": True,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "grid.color": palette.grid,
        "grid.linewidth": 0.8,
        "text.parse_math": False,
        "legend.frameon": False,
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


def _with_variables(svg: str) -> str:
    for role, marker in vars(_MARKERS).items():
        variable = f"var(--fig-{role.replace('_', '-')}, {getattr(_LIGHT, role)})"
        svg = svg.replace(marker, variable)
    return svg
