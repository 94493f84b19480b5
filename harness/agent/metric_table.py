"""The metrics of an attempt as a small table: how each one began, ended, and went in between.

In: `attempts/NN/metrics.jsonl`, whose names and values anybody may have printed. Out: a title and rows.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.agent.excerpts import cut, plain
from harness.results.raw import json_lines, number_in

MOST_METRICS = 40
MOST_POINTS = 8
_MOST_NAMES = 2_000
_LONGEST_NAME = 80
_HEADER = (
    "| metric | rows | first | last | min (step) | max (step) | course |",
    "|---|---|---|---|---|---|---|",
)
_TELLING = [
    re.compile(words, re.IGNORECASE)
    for words in (
        *("reward|score", "kl", "loss"),
        *("^val|eval|pass_rate|pass@|accuracy", "grad_norm|entropy", "length"),
    )
]
Point = tuple[float, int | None]
"""A value and its step."""


@dataclass
class Metrics:
    """What a metrics file holds: number of rows, their steps, and the course of each metric."""

    rows: int = 0
    steps: list[int] = field(default_factory=list)
    courses: dict[str, list[Point]] = field(default_factory=dict)


def read(path: Path) -> Metrics:
    """The metrics of one attempt, of _MOST_NAMES names at most; empty when there is no file. Damaged lines
    are passed over."""
    metrics = Metrics()
    for row in json_lines(path, path.name, []):
        values, step = row.data.get("values"), row.data.get("step")
        if not isinstance(values, dict):
            continue
        metrics.rows += 1
        step = step if isinstance(step, int) else None
        if step is not None:
            metrics.steps.append(step)
        for name in values:
            value = number_in(values, name)
            is_kept = name in metrics.courses or len(metrics.courses) < _MOST_NAMES
            if value is not None and is_kept:
                metrics.courses.setdefault(name, []).append((value, step))
    return metrics


def choose(metrics: Metrics, parts: Sequence[str]) -> list[str]:
    """Names that hold one of `parts` (all of them when there are none), the most telling first."""

    def is_wanted(name: str) -> bool:
        texts = name.lower(), shown_name(name).lower()
        return not parts or any(part.lower() in text for part in parts for text in texts)

    def rank(name: str) -> int:
        return next((rank for rank, words in enumerate(_TELLING) if words.search(name)), len(_TELLING))

    return sorted(filter(is_wanted, metrics.courses), key=lambda name: (rank(name), name))


def title(metrics: Metrics) -> str:
    steps = metrics.steps
    span = f", steps {min(steps)} to {max(steps)}" if steps else ", without steps"
    return f"{metrics.rows} rows{span}; course: values at even distances, first to last"


def rows(metrics: Metrics, names: Sequence[str]) -> list[str]:
    """The lines of the table, and what is left out of it."""
    lines = [*_HEADER, *(_row(name, metrics.courses[name]) for name in names[:MOST_METRICS])]
    if len(names) > MOST_METRICS:
        left = f"{len(names) - MOST_METRICS} more"
        if len(metrics.courses) == _MOST_NAMES:
            left = "many more"
        lines.append(f"… {left} metrics left out: ask for parts of names with metrics=…")
    return lines


def shown_name(name: str) -> str:
    """A metric's name as it may stand in a table: one word of bounded length."""
    return cut("_".join(re.split(r"[\s|`]+", plain(name[: 4 * _LONGEST_NAME]).strip("|` \t"))), _LONGEST_NAME)


def _row(name: str, points: list[Point]) -> str:
    numbers = [point for point in points if not math.isnan(point[0])]
    nans, inner = len(points) - len(numbers), MOST_POINTS - 1
    count = f"{len(points)} ({nans} NaN)" if nans else str(len(points))
    low, high = (pick(numbers, key=lambda point: point[0], default=None) for pick in (min, max))
    shown = points
    if len(points) > MOST_POINTS:
        shown = [*(points[index * len(points) // inner] for index in range(inner)), points[-1]]
    course = " ".join(f"{value:.3g}" for value, _ in shown).replace("nan", "NaN")
    ends = [_number(points[0][0]), _number(points[-1][0]), _extreme(low), _extreme(high)]
    return f"| {' | '.join([shown_name(name), count, *ends, course])} |"


def _number(value: float) -> str:
    return "NaN" if math.isnan(value) else f"{value:.6g}"


def _extreme(point: Point | None) -> str:
    if point is None:
        return "NaN"
    value, step = point
    return _number(value) if step is None else f"{_number(value)} ({step})"
