"""The metrics of an attempt as a small table: how each one began, ended, and went in between.

In: `attempts/NN/metrics.jsonl`, whose names and values anybody may have printed. Out: a title and rows.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

from harness.agent.excerpts import cut, plain
from harness.results.collect import columns
from monitors.metrics.axis import AXIS_WORDS, AxisKind, whole
from monitors.metrics_file import MetricTable

MOST_METRICS = 40
MOST_POINTS = 8
_MOST_NAMES = 2_000
_LONGEST_NAME = 80
_HEADER = (
    "| metric | rows | first | last | min (at) | max (at) | course |",
    "|---|---|---|---|---|---|---|",
)
_TELLING = ("reward|score", "kl", "loss", "^val|eval|pass_rate|pass@|accuracy", "grad_norm|entropy", "length")


@dataclass
class Metrics:
    """What a metrics file holds: number of rows, what their positions are, the first and the last of these,
    and the values of each metric with their positions."""

    rows: int = 0
    axis: AxisKind = "row"
    span: tuple[float, float] | None = None
    courses: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)


def read(path: Path) -> Metrics:
    """The metrics of one attempt, of _MOST_NAMES names at most; empty when there is no file. Damaged lines
    are passed over."""
    table = MetricTable.read(path)
    axis, places = table.placed()
    at = np.array(places)
    found = islice(columns(table).items(), _MOST_NAMES)
    courses = {name: (values, at[rows]) for name, (rows, values) in found}
    return Metrics(len(table), axis, (min(places), max(places)) if places else None, courses)


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
    lines = [*_HEADER, *(_row(name, *metrics.courses[name]) for name in names[:MOST_METRICS])]
    if len(names) > MOST_METRICS:
        left = "many" if len(metrics.courses) == _MOST_NAMES else len(names) - MOST_METRICS
        lines.append(f"… {left} more metrics left out: ask for parts of names with metrics=…")
    return lines


def shown_name(name: str) -> str:
    """A metric's name as it may stand in a table: one word of bounded length."""
    return cut("_".join(re.split(r"[\s|`]+", plain(name[: 4 * _LONGEST_NAME]).strip("|` \t"))), _LONGEST_NAME)


def _row(name: str, values: np.ndarray, places: np.ndarray) -> str:
    kept = np.flatnonzero(~np.isnan(values))
    count = f"{len(values)} ({len(values) - len(kept)} NaN)" if len(kept) < len(values) else str(len(values))
    inner, shown = MOST_POINTS - 1, values
    if len(values) > MOST_POINTS:
        shown = values[[*(index * len(values) // inner for index in range(inner)), -1]]
    course = " ".join(f"{value:.3g}" for value in shown.tolist()).replace("nan", "NaN")
    extremes = [int(kept[pick(values[kept])]) if len(kept) else 0 for pick in (np.argmin, np.argmax)]
    ends = [_number(values[0]), _number(values[-1])]
    ends += [_number(values[index], f" ({whole(float(places[index]))})") for index in extremes]
    return f"| {' | '.join([shown_name(name), count, *ends, course])} |"


def _number(value: float, at: str = "") -> str:
    return "NaN" if math.isnan(value) else f"{value:.6g}{at}"
