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
class Palette:
    """Colours by role, as #rrggbb. Lines differ in lightness too: not every eye tells their hues apart."""

    ink: str
    grid: str
    line_1: str
    line_2: str
    attempt: str
    line_3: str
    line_4: str
    line_5: str
    line_6: str
    line_7: str
    line_8: str

    @property
    def lines(self) -> tuple[str, ...]:
        """One colour per line of a picture with several."""
        return tuple(getattr(self, f"line_{number}") for number in range(1, 9))


_LIGHT = Palette(
    "#57606a", "#e4e7eb", "#2563a8", "#b4631a", "#8a6fb0",
    "#0b7a65", "#a8387a", "#7d7000", "#5b4db3", "#2089b0", "#6e3324",
)  # fmt: skip
_DARK = Palette(
    "#9aa4af", "#2d333b", "#6cb0f5", "#e8a35c", "#b79ce0",
    "#3fc4a6", "#f08cc4", "#d6c84a", "#a99cf5", "#8fdcf5", "#d99a86",
)  # fmt: skip
# Colours nobody else uses, so that they can be found in the SVG and turned into variables.
_MARKERS = Palette(*(f"#0102{number:02x}" for number in range(3, 14)))


@dataclass(frozen=True)
class Picture:
    """One drawing, twice."""

    svg: str
    png: bytes


def line(series: Series, name: str) -> Picture | None:
    """A metric over the steps; None when it has no finite value."""
    if not np.isfinite(series.values).any():
        return None
    return _over_steps(name, _SIZE, lambda axes, palette: _draw_line(axes, palette, series))


def validation(curves: Mapping[str, Sequence[tuple[int, int, Fact]]]) -> Picture | None:
    """Pass rates over the steps with their intervals; each point is (step, attempt, fact)."""
    if not any(points for points in curves.values()):
        return None
    return _over_steps("validation", _WIDE, lambda axes, palette: _draw_validation(axes, palette, curves))


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


def _draw_line(axes: Any, palette: Palette, series: Series) -> None:
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
    axes: Any, palette: Palette, curves: Mapping[str, Sequence[tuple[int, int, Fact]]]
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


def _mark_attempts(axes: Any, palette: Palette, steps: np.ndarray, attempts: np.ndarray) -> None:
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


def picture(name: str, size: tuple[float, float], draw: Callable[[Canvas, Palette], None]) -> Picture:
    """What `draw` draws on a canvas of that many inches; it takes its colours from the palette alone."""
    svg, png = io.StringIO(), io.BytesIO()
    with rc_context({**_style(_MARKERS), "svg.hashsalt": name}):
        canvas = _canvas(size, draw, _MARKERS)
        canvas.patch.set_alpha(0)
        FigureCanvasSVG(canvas).print_svg(svg, metadata={"Date": None, "Creator": None})
    with rc_context(_style(_LIGHT)):
        FigureCanvasAgg(_canvas(size, draw, _LIGHT)).print_png(png, metadata={"Software": None})
    return Picture(_with_variables(_cleaned(svg.getvalue(), name)), png.getvalue())


def _canvas(size: tuple[float, float], draw: Callable[[Canvas, Palette], None], palette: Palette) -> Canvas:
    canvas = Canvas(figsize=size, dpi=150, layout="constrained", facecolor="white")
    draw(canvas, palette)
    for axes in canvas.axes:
        axes.patch.set_alpha(0)
    return canvas


def _over_steps(name: str, size: tuple[float, float], draw: Callable[[Any, Palette], None]) -> Picture:
    """A picture of one panel over the steps."""

    def one_panel(canvas: Canvas, palette: Palette) -> None:
        axes = canvas.add_subplot()
        draw(axes, palette)
        label_steps(axes)

    return picture(name, size, one_panel)


def label_steps(axes: Any) -> None:
    """Mark the axis along the bottom as that of the steps."""
    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7))
    axes.margins(x=0.02)


def _style(palette: Palette) -> dict[str, Any]:
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
