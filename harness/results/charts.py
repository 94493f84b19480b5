"""The numbers of a figure as plain data: what is drawn, and what stands beside the drawing.

In: numbers of a run or of a comparison. Out: `Chart`s; `save_all` makes one after the other, writes each as
`NAME.json` and draws it as `NAME.svg`; `page_parts` gives what a page needs to draw them itself. A figure
shows nothing that its JSON does not hold; of a long line, page and drawing show the extremes of each
neighbourhood.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from harness.atomic_write import write_atomically
from harness.installation import own_text, templates_dir
from harness.results.drawing_style import colour_variables
from harness.results.manifest import plain
from harness.results.parts import made
from harness.results.types import Figure

Kind = Literal["metric", "validation", "curves", "levels", "quality"]
Numbers = tuple[float, ...] | np.ndarray

SUFFIXES = (".svg", ".png", ".json")  # .png: of reports by earlier versions
MOST_LABELLED = 8  # lines of a panel with a colour and a label of their own
MOST_SHOWN = 1000  # values of a line on a page or in a drawing
_LARGEST = 1e307  # beyond it an axis has no ends
_WIDE = 1e4  # from this ratio of the extremes a linear axis flattens the rest
_OF_SCRIPT = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


@dataclass(frozen=True)
class Line:
    """Values `y` at `x`. `low`, `high`: around each, () or None where there is nothing; `runs`: x and y of
    the runs behind a mean; `attempts`, `sources`: where each value comes from, or `attempts` and `lines` of
    their metrics.jsonl."""

    label: str
    x: Numbers
    y: Numbers
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    runs: tuple[tuple[Numbers, Numbers], ...] = ()
    is_baseline: bool = False
    attempts: tuple[int, ...] | np.ndarray = ()
    lines: tuple[int, ...] | np.ndarray = ()
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mark:
    """One value with its interval. `x`: None for a level that is no number; `runs`: the values behind it;
    `is_special`: the baseline among levels, on the front among points."""

    label: str
    x: float | None
    y: float
    low: float | None = None
    high: float | None = None
    n: int = 0
    runs: Numbers = ()
    is_special: bool = False
    is_labelled: bool = True


@dataclass(frozen=True)
class Panel:
    """Lines or marks that share their axes; `title` is "" for the only panel of a chart. `y`: what its own
    axis says; `scale`: "log", or "asinh" (logarithmic to both sides of 0), where a linear axis would
    flatten the curve; `x_scale`: "log" for levels that are spaced so."""

    title: str = ""
    lines: tuple[Line, ...] = ()
    marks: tuple[Mark, ...] = ()
    y: str = ""
    scale: str = ""
    x_scale: str = ""


@dataclass(frozen=True)
class Chart:
    """One figure. `x`, `y`: what the axes say; `goal`: "min" where lower values are better."""

    name: str
    title: str
    caption: str
    kind: Kind
    x: str
    y: str
    panels: tuple[Panel, ...]
    goal: str = "max"


Maker = tuple[str, Callable[[], Chart | None]]
"""What a chart is called, and what makes it; None where there is nothing to draw."""


def save_all(
    makers: Iterable[Maker], left_out: list[str], folder: Path, into: Path | None = None, draws: bool = True
) -> list[Figure]:
    """Make the charts and write them into `<folder>/figures/`, and take away the figures of an earlier
    report. One that cannot be drawn is named in `left_out`. `into`: another folder, for their data, and for
    the drawings that this one has not. `draws`: as files too, which takes most of the time of a report."""
    target = (into or folder) / "figures"
    target.mkdir(exist_ok=True)

    def save(make: Callable[[], Chart | None]) -> Figure | None:
        chart = make()
        if chart is None:
            return None
        is_there = into is not None and (folder / "figures" / f"{chart.name}.svg").exists()
        return _save(chart, target, draws, draws and not is_there)

    found = [made(name, partial(save, make), left_out, "drawn") for name, make in makers]
    figures = [figure for figure in found if figure is not None]
    kept = {Path(file).name for figure in figures for file in figure.files}
    for path in target.iterdir():
        if path.suffix in SUFFIXES and path.name not in kept:
            path.unlink()
    return figures


def _save(chart: Chart, folder: Path, has_drawing: bool, is_drawn: bool) -> Figure:
    thin = shown(chart)
    if is_drawn:
        from harness.results.drawing import draw

        write_atomically(folder / f"{chart.name}.svg", draw(thin))
    write_atomically(folder / f"{chart.name}.json", f"{_json(_plain(chart))}\n")
    suffixes = (".svg", ".json") if has_drawing else (".json",)
    files = tuple(f"figures/{chart.name}{suffix}" for suffix in suffixes)
    return Figure(chart.name, chart.title, chart.caption, _plain(thin), files)


def _plain(node: Any) -> Any:
    """Data as JSON has it: of a chart and its parts the fields that say anything; 0 does."""
    if isinstance(node, np.ndarray):
        is_whole = node.dtype.kind != "f" or bool(np.isfinite(node).all())
        return node.tolist() if is_whole else plain(node.tolist())
    if isinstance(node, tuple | list):
        return [_plain(item) for item in node]
    if is_dataclass(node):
        told = {each.name: _plain(getattr(node, each.name)) for each in fields(node)}
        return {
            key: value for key, value in told.items() if value not in (None, [], "") and value is not False
        }
    return plain(node)


def _json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


# --- for a page ---------------------------------------------------------------------------------------------


def page_parts(figures: Iterable[Figure]) -> dict[str, str]:
    """What a page that draws the figures itself needs: `chart_data` (JSON that no text in it can end early),
    `chart_script`, `chart_css`, and `script_hash`, the only script its Content-Security-Policy allows;
    `light_colours`, `dark_colours`."""
    data = _json([figure.data for figure in figures]).translate(_OF_SCRIPT)
    colours = {f"{name}_colours": colour_variables(is_dark=name == "dark") for name in ("light", "dark")}
    return {"chart_data": data, **_script(), **colours}


@cache
def _script() -> dict[str, str]:
    folder = templates_dir() / "reports"
    library, own = (own_text(folder / name).strip() for name in ("uplot/uPlot.iife.min.js", "charts.js"))
    script = f"\n{library}\n{own}\n"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    css = own_text(folder / "uplot/uPlot.min.css").strip()
    return {"chart_script": script, "chart_css": css, "script_hash": f"sha256-{digest}"}


def shown(chart: Chart) -> Chart:
    """The chart as a page and a drawing show it: long lines thinned, a fitting scale, no sources."""
    panels = (
        replace(panel, lines=tuple(map(_thinned, panel.lines)), scale=_scale(panel)) for panel in chart.panels
    )
    return replace(chart, panels=tuple(map(_placed, panels) if chart.kind == "levels" else panels))


def labelled(lines: Sequence[Line], is_max: bool) -> list[Line]:
    """The lines with a colour of their own: all of few; of many the baseline, and those that end best."""
    if len(lines) <= MOST_LABELLED:
        return list(lines)
    by_end = sorted(lines, key=lambda line: line.y[-1], reverse=is_max)
    return sorted(by_end, key=lambda line: not line.is_baseline)[: MOST_LABELLED - 3]


def _scale(panel: Panel) -> str:
    every = np.concatenate([np.empty(0), *(np.asarray(line.y, dtype=float) for line in panel.lines)])
    values = every[np.isfinite(every)]
    if len(values) and np.abs(values).max() > _LARGEST:
        raise ValueError(f"a value is beyond {_LARGEST:g}")
    sizes = np.abs(values[values != 0])
    is_positive = bool((values > 0).all())
    if not len(sizes) or sizes.max() <= _WIDE * (sizes.min() if is_positive else np.median(sizes)):
        return ""
    return "log" if is_positive else "asinh"


def _x_scale(panel: Panel) -> str:
    """ "log" for positive levels that are more evenly spaced as logarithms; of two, for ten times as much."""
    levels = sorted({mark.x for mark in panel.marks if mark.x is not None})
    if len(levels) < max(2, len(panel.marks)) or levels[0] <= 0:
        return ""
    gaps = [np.diff(levels), np.diff(np.log(levels))]
    linear, logarithmic = (float(gap.max() / gap.min()) for gap in gaps)
    is_wide = levels[-1] > 9.99 * levels[0]
    return "log" if (is_wide if len(levels) == 2 else logarithmic < 0.99 * linear) else ""


def _placed(panel: Panel) -> Panel:
    """The levels at their numbers or the logarithms of these; one beside the other where they are no numbers,
    or would crowd, such as 0, 0.001, 0.1."""
    places, scale = [mark.x for mark in panel.marks if mark.x is not None], _x_scale(panel)
    gaps = np.diff(sorted(places))
    if scale:
        places = np.log10(places).tolist()
    elif len(places) < len(panel.marks) or not len(gaps) or gaps.min() < gaps.sum() / 15:
        places = list(range(len(panel.marks)))
    pairs = zip(panel.marks, places, strict=True)
    return replace(panel, x_scale=scale, marks=tuple(replace(mark, x=x) for mark, x in pairs))


def _thinned(line: Line) -> Line:
    kept = _kept(line.y, MOST_SHOWN)
    y, low, high = (_at(column, kept, 6) for column in (line.y, line.low, line.high))
    runs = ((xs, ys, _kept(ys, MOST_SHOWN // 4)) for xs, ys in line.runs)
    thin = tuple((_at(xs, few, 9), _at(ys, few, 6)) for xs, ys, few in runs)
    is_mixed = len(np.unique(line.attempts)) > 1
    attempts = tuple(int(line.attempts[index]) for index in kept) if is_mixed else ()
    thinned = replace(line, x=_at(line.x, kept, 9), y=y, low=low, high=high, runs=thin, attempts=attempts)
    return replace(thinned, lines=(), sources=())


def _at(column: Sequence[float | None] | np.ndarray, kept: Sequence[int], digits: int) -> tuple[Any, ...]:
    """The kept values with so many digits."""
    return tuple(_rounded(column[index], digits) for index in kept) if len(column) else ()


def _rounded(value: float | None, digits: int) -> float | None:
    number = None if value is None else float(f"{value:.{digits}g}")
    return int(number) if number is not None and number.is_integer() and abs(number) < 1e9 else number


def _kept(values: Numbers, most: int) -> list[int]:
    """Indices of the values that are shown: of a long line both ends and, of each neighbourhood, the lowest,
    the highest and the first that is not finite."""
    if len(values) <= most:
        return list(range(len(values)))
    column, chosen = np.array(values, dtype=float), {0, len(values) - 1}
    for part in np.array_split(np.arange(len(column)), most // 2):
        finite = np.isfinite(column[part])
        if finite.any():
            chosen.add(int(part[np.where(finite, column[part], np.inf).argmin()]))
            chosen.add(int(part[np.where(finite, column[part], -np.inf).argmax()]))
        if not finite.all():
            chosen.add(int(part[(~finite).argmax()]))
    return sorted(chosen)
