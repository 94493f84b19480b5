"""The numbers of a figure as plain data: what is drawn, and what stands beside the drawing.

In: numbers of a run or of a comparison. Out: a `Chart`; `save` writes it as `NAME.json`, and as `NAME.svg`
and `NAME.png` made from it by `drawing`. A figure shows nothing that its JSON does not hold.
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
    """Values `y` at `x`. `low`, `high`: the interval or band around each, () or None where there is none;
    `runs`: x and y of the runs behind a mean; `attempts`, `sources`: where each value comes from."""

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

    def as_json(self) -> dict[str, Any]:
        """The chart as JSON data, without what is empty; null for NaN and infinities."""
        return dict(plain(asdict(self, dict_factory=_known)))


def save(chart: Chart, folder: Path, is_drawn: bool = True) -> Figure:
    """Write a chart's data and drawings into `folder`; the figure with the names of these files."""
    files = tuple(f"figures/{chart.name}{suffix}" for suffix in SUFFIXES)
    data = json.dumps(chart.as_json(), ensure_ascii=False, allow_nan=False) + "\n"
    write_atomically(folder / f"{chart.name}.json", data)
    if not is_drawn:
        return Figure(chart.name, chart.title, chart.caption, "", files)
    from harness.results import drawing, drawing_style

    picture = drawing.draw(chart)
    write_atomically(folder / f"{chart.name}.svg", drawing_style.standalone(picture.svg))
    write_atomically(folder / f"{chart.name}.png", picture.png)
    return Figure(chart.name, chart.title, chart.caption, picture.svg, files)


def save_all(charts: Iterable[Chart], folder: Path, into: Path | None = None) -> list[Figure]:
    """Write the charts into `<folder>/figures/`, and take away the figures of an earlier report. `into`:
    another folder, for their data alone."""
    if into is not None:
        (into / "figures").mkdir()
        return [save(chart, into / "figures", is_drawn=False) for chart in charts]
    target = folder / "figures"
    target.mkdir(exist_ok=True)
    figures = [save(chart, target) for chart in charts]
    kept = {Path(file).name for figure in figures for file in figure.files}
    for path in target.iterdir():
        if path.suffix in SUFFIXES and path.name not in kept:
            path.unlink()
    return figures


def _known(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The fields that say anything; 0 does."""
    return {key: value for key, value in items if not (value is None or value is False or value in ((), ""))}
