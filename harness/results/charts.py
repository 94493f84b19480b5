"""The numbers of a figure as plain data: what is drawn, and what stands beside the drawing.

In: numbers of a run or of a comparison. Out: `Chart`s; `save_all` writes each as `NAME.json`, drawn
as `NAME.svg` and `NAME.png`. A figure shows nothing that its JSON does not hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from harness.atomic_write import write_atomically
from harness.results.manifest import plain
from harness.results.types import Figure

Kind = Literal["metric", "validation", "curves", "levels", "quality"]
Numbers = tuple[float, ...]

SUFFIXES = (".svg", ".png", ".json")


@dataclass(frozen=True)
class Line:
    """Values `y` at `x`. `low`, `high`: around each, () or None where there is nothing; `runs`: x and y of
    the runs behind a mean; `attempts`, `sources`: where each value comes from."""

    label: str
    x: Numbers
    y: Numbers
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    runs: tuple[tuple[Numbers, Numbers], ...] = ()
    is_baseline: bool = False
    attempts: tuple[int, ...] = ()
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
    """Lines or marks that share their axes; `title` is "" for the only panel of a chart."""

    title: str = ""
    lines: tuple[Line, ...] = ()
    marks: tuple[Mark, ...] = ()


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


def save_all(charts: Iterable[Chart], folder: Path, into: Path | None = None) -> list[Figure]:
    """Write the charts into `<folder>/figures/`, and take away the figures of an earlier report. `into`:
    another folder, for their data alone."""
    target = (into or folder) / "figures"
    target.mkdir(exist_ok=True)
    figures = [_save(chart, target, is_drawn=into is None) for chart in charts]
    kept = {Path(file).name for figure in figures for file in figure.files}
    for path in target.iterdir():
        if path.suffix in SUFFIXES and path.name not in kept:
            path.unlink()
    return figures


def _save(chart: Chart, folder: Path, is_drawn: bool) -> Figure:
    data = json.dumps(plain(asdict(chart, dict_factory=_known)), ensure_ascii=False, allow_nan=False)
    write_atomically(folder / f"{chart.name}.json", f"{data}\n")
    svg = ""
    if is_drawn:
        from harness.results import drawing, drawing_style

        svg, png = drawing.draw(chart)
        svg = svg
        write_atomically(folder / f"{chart.name}.svg", drawing_style.standalone(svg))
        write_atomically(folder / f"{chart.name}.png", png)
    files = tuple(f"figures/{chart.name}{suffix}" for suffix in SUFFIXES)
    return Figure(chart.name, chart.title, chart.caption, svg, files)


def _known(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The fields that say anything; 0 does."""
    return {key: value for key, value in items if not (value is None or value is False or value in ((), ""))}
