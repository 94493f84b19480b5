"""The metrics of an attempt as a small table: how each one began, ended, and went in between.

In: `attempts/NN/metrics.jsonl`, whose names and values anybody may have printed. Out: a title and rows.
Memory is bounded by the number of metrics, not by the length of the training.
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
_MOST_KEPT = 64
_LONGEST_NAME = 80
_HEADER = (
    "| metric | rows | first | last | min (step) | max (step) | course |",
    "|---|---|---|---|---|---|---|",
)
_TELLING = [
    re.compile(words, re.IGNORECASE)
    for words in (
        "reward|score",
        "kl",
        "loss",
        "^val|eval|pass_rate|pass@|accuracy",
        "grad_norm|entropy",
        "length",
    )
]


@dataclass
class Course:
    """One metric over an attempt. `low`, `high`: (value, step), over numbers; `points`: every `stride`-th
    row's value."""

    rows: int = 0
    nans: int = 0
    first: float = math.nan
    last: float = math.nan
    low: tuple[float, int | None] | None = None
    high: tuple[float, int | None] | None = None
    stride: int = 1
    points: list[float] = field(default_factory=list)

    def add(self, value: float, step: int | None) -> None:
        """Take in the next row's value."""
        if self.rows == 0:
            self.first = value
        if self.rows % self.stride == 0:
            self.points.append(value)
            if len(self.points) > _MOST_KEPT:
                self.points = self.points[::2]
                self.stride *= 2
        self.last = value
        self.rows += 1
        if math.isnan(value):
            self.nans += 1
            return
        if self.low is None or value < self.low[0]:
            self.low = (value, step)
        if self.high is None or value > self.high[0]:
            self.high = (value, step)

    def course(self) -> list[float]:
        """At most MOST_POINTS values at even distances, the first and the last among them."""
        if self.rows <= MOST_POINTS:
            return self.points
        inner = MOST_POINTS - 1
        return [*(self.points[i * len(self.points) // inner] for i in range(inner)), self.last]


@dataclass
class Metrics:
    """What a metrics file holds. `unnamed`: values left out because there are too many names."""

    rows: int = 0
    steps: tuple[int, int] | None = None
    courses: dict[str, Course] = field(default_factory=dict)
    unnamed: int = 0


def read(path: Path) -> Metrics:
    """The metrics of one attempt; empty when there is no file. Damaged lines are passed over."""
    metrics = Metrics()
    for row in json_lines(path, path.name, []):
        values = row.data.get("values")
        if not isinstance(values, dict):
            continue
        metrics.rows += 1
        step = row.data.get("step")
        step = step if isinstance(step, int) else None
        if step is not None:
            low, high = metrics.steps or (step, step)
            metrics.steps = (min(low, step), max(high, step))
        for name in values:
            value = number_in(values, name)
            if value is None:
                continue
            if name not in metrics.courses and len(metrics.courses) >= _MOST_NAMES:
                metrics.unnamed += 1
                continue
            metrics.courses.setdefault(name, Course()).add(value, step)
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
    steps = f", steps {metrics.steps[0]} to {metrics.steps[1]}" if metrics.steps else ", without steps"
    return f"{metrics.rows} rows{steps}; course: values at even distances, first to last"


def rows(metrics: Metrics, names: Sequence[str]) -> list[str]:
    """The lines of the table, and what is left out of it."""
    lines = [*_HEADER, *(_row(name, metrics.courses[name]) for name in names[:MOST_METRICS])]
    if len(names) > MOST_METRICS:
        left = len(names) - MOST_METRICS
        lines.append(f"… {left} more metrics left out: ask for parts of names with metrics=…")
    if metrics.unnamed:
        lines.append(f"… {metrics.unnamed} values left out: there are too many different names")
    return lines


def shown_name(name: str) -> str:
    """A metric's name as it may stand in a table: one word of bounded length."""
    return cut("_".join(re.split(r"[\s|`]+", plain(name[: 4 * _LONGEST_NAME]).strip("|` \t"))), _LONGEST_NAME)


def _row(name: str, course: Course) -> str:
    count = f"{course.rows} ({course.nans} NaN)" if course.nans else str(course.rows)
    points = " ".join(f"{value:.3g}" for value in course.course()).replace("nan", "NaN")
    ends = [_number(course.first), _number(course.last), _extreme(course.low), _extreme(course.high)]
    return f"| {' | '.join([shown_name(name), count, *ends, points])} |"


def _number(value: float) -> str:
    return "NaN" if math.isnan(value) else f"{value:.6g}"


def _extreme(extreme: tuple[float, int | None] | None) -> str:
    if extreme is None:
        return "NaN"
    value, step = extreme
    return _number(value) if step is None else f"{_number(value)} ({step})"
