"""The metrics of an attempt as a small table: how each one began, ended, and went in between.

In: `attempts/NN/metrics.jsonl`, whose names and values anybody may have printed. Out: a title and rows.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.agent.excerpts import cut, plain
from harness.results.raw import RowPlaces
from monitors.metrics.axis import AXIS_WORDS, AxisKind, whole

MOST_METRICS = 40
MOST_POINTS = 8
_MOST_NAMES = 2_000
_LONGEST_NAME = 80
_HEADER = (
    "| metric | rows | first | last | min (at) | max (at) | course |",
    "|---|---|---|---|---|---|---|",
)
_TELLING = ("reward|score", "kl", "loss", "^val|eval|pass_rate|pass@|accuracy", "grad_norm|entropy", "length")
Point = tuple[float, float | None]
"""A value and its position."""


@dataclass
class Metrics:
    """What a metrics file holds: number of rows, what their positions are, the first and the last of these,
    and the course of each metric."""

    rows: int = 0
    axis: AxisKind = "row"
    span: tuple[float, float] | None = None
    courses: dict[str, list[Point]] = field(default_factory=dict)


def read(path: Path) -> Metrics:
    """The metrics of one attempt, of _MOST_NAMES names at most; empty when there is no file. Damaged lines
    are passed over."""
    rows = RowPlaces()
    found: dict[str, list[tuple[float, int]]] = {}
    for number, (_, row) in enumerate(rows.read(path, path.name, [])):
        for name, value in row.values.items():
            if name in found or len(found) < _MOST_NAMES:
                found.setdefault(name, []).append((value, number))
    axis, places = rows.placed()
    courses: dict[str, list[Point]] = {
        name: [(value, whole(places[number])) for value, number in course] for name, course in found.items()
    }
    return Metrics(len(places), axis, (min(places), max(places)) if places else None, courses)


def choose(metrics: Metrics, parts: Sequence[str]) -> list[str]:
    """Names that hold one of `parts` (all of them when there are none), the most telling first."""
    wanted = [part.lower() for part in parts]

    def is_wanted(name: str) -> bool:
        return not wanted or any(part in f"{name}\n{shown_name(name)}".lower() for part in wanted)

    def rank(name: str) -> tuple[int, str]:
        found = (place for place, words in enumerate(_TELLING) if re.search(words, name, re.IGNORECASE))
        return next(found, len(_TELLING)), name

    return sorted(filter(is_wanted, metrics.courses), key=rank)


def title(metrics: Metrics) -> str:
    first, last = map(whole, metrics.span or (0, 0))
    span = f", {AXIS_WORDS[metrics.axis]} {first} to {last}" if metrics.span else ""
    return f"{metrics.rows} rows{span}; course: values at even distances, first to last"


def rows(metrics: Metrics, names: Sequence[str]) -> list[str]:
    """The lines of the table, and what is left out of it."""
    lines = [*_HEADER, *(_row(name, metrics.courses[name]) for name in names[:MOST_METRICS])]
    if len(names) > MOST_METRICS:
        left = "many" if len(metrics.courses) == _MOST_NAMES else len(names) - MOST_METRICS
        lines.append(f"… {left} more metrics left out: ask for parts of names with metrics=…")
    return lines


def shown_name(name: str) -> str:
    """A metric's name as it may stand in a table: one word of bounded length."""
    return cut("_".join(re.split(r"[\s|`]+", plain(name[: 4 * _LONGEST_NAME]).strip("|` \t"))), _LONGEST_NAME)


def _row(name: str, points: list[Point]) -> str:
    numbers = [point for point in points if not math.isnan(point[0])]
    nans, inner = len(points) - len(numbers), MOST_POINTS - 1
    count = f"{len(points)} ({nans} NaN)" if nans else str(len(points))
    shown = points
    if len(points) > MOST_POINTS:
        shown = [*(points[index * len(points) // inner] for index in range(inner)), points[-1]]
    course = " ".join(f"{value:.3g}" for value, _ in shown).replace("nan", "NaN")
    ends = [_number((points[0][0], None)), _number((points[-1][0], None))]
    extremes = [_number(pick(numbers, key=lambda point: point[0], default=points[0])) for pick in (min, max)]
    return f"| {' | '.join([shown_name(name), count, *ends, *extremes, course])} |"


def _number(point: Point) -> str:
    value, position = point
    if math.isnan(value):
        return "NaN"
    return f"{value:.6g}" if position is None else f"{value:.6g} ({position})"
