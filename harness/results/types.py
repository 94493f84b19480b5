"""The words of this room: what is read (rows), what goes out (facts). Nothing heavy is imported here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from harness.attempt import log_lost
from harness.wording import listed, number_text
from monitors.metrics.axis import AxisKind, place_text

if TYPE_CHECKING:
    import numpy as np

    from monitors.metrics_file import MetricTable

ONE_SEED = "one seed: says nothing about other seeds"
LOG_CUT = "a part of the log is lost, and rows with it"
"""Why a number that needs every row is withheld: no disagreement, but nobody knows it."""


@dataclass(frozen=True)
class Source:
    """Where a number stands: a file (relative to the result folder), its line or lines, and the key in it."""

    file: str
    line: int | None = None  # 1-based
    last_line: int | None = None  # for a range, inclusive
    key: str | None = None

    def __str__(self) -> str:
        place = self.file
        if self.line is not None:
            place += f":{self.line}"
            if self.last_line is not None and self.last_line != self.line:
                place += f"–{self.last_line}"
        return place


@dataclass(frozen=True)
class Series:
    """One metric over the run, attempts merged; the arrays have one entry per row that has the metric."""

    key: str
    positions: np.ndarray  # float64 [n] on the record's axis, increasing; strictly where they are steps
    values: np.ndarray  # float64 [n], NaN and infinities kept
    attempts: np.ndarray  # int64 [n], the attempt that the value comes from
    lines: np.ndarray  # int64 [n], line in that attempt's file
    file: str = "metrics.jsonl"

    def source(self, index: int) -> Source:
        """Where the value at `index` (negative counts from the end) stands."""
        file = f"{attempt_folder(int(self.attempts[index]))}/{self.file}"
        return Source(file, int(self.lines[index]), key=self.key)

    def at(self, chosen: np.ndarray) -> Series:
        """The entries at these indices, or where a mask is true."""
        columns = (self.positions, self.values, self.attempts, self.lines)
        return Series(self.key, *(column[chosen] for column in columns))


@dataclass(frozen=True)
class TaskResult:
    """One task in one validation: its episodes in the order they were started."""

    task_id: str
    rewards: tuple[float, ...]
    successes: tuple[bool, ...]


@dataclass(frozen=True)
class SourcedNumber:
    """A number that stands at its source ("value"), or is worked out by a recipe from the rows up to it."""

    value: float
    source: Source
    recipe: Recipe = "value"


@dataclass(frozen=True)
class Evaluation:
    """One validation: per-task results where the trainer wrote them, and what the trainer reported."""

    position: float  # on the record's axis
    attempt: int
    tasks: tuple[TaskResult, ...]  # empty where only summary numbers are known
    source: Source | None  # the lines of validation.jsonl
    reported: Mapping[str, SourcedNumber]  # name without "val/", e.g. "task_pass_rate@1", "eval_accuracy"


@dataclass(frozen=True)
class AttemptRecord:
    """What one attempt's folder holds."""

    number: int
    exit: Mapping[str, Any] | None
    config_text: str | None
    rows: int  # rows of metrics.jsonl
    span: tuple[SourcedNumber, SourcedNumber] | None  # first and last position of them
    axis: AxisKind = "step"
    is_of_log: bool = False  # the rows were read from the terminal's log

    @property
    def folder(self) -> str:
        return attempt_folder(self.number)

    @property
    def log_lost(self) -> str:
        """What is not in its log, in words; "" for nothing."""
        ended = self.exit or {}
        count = ended.get("log_lost_bytes")
        return log_lost(count if isinstance(count, int) else 0, str(ended.get("log_lost_why", "")))

    @property
    def is_cut(self) -> bool:
        """True if rows may be lost with the log."""
        return bool(self.log_lost) and (self.is_of_log or not self.rows)


@dataclass(frozen=True)
class Record:
    """Everything read from an experiment's raw files, attempts merged."""

    result_dir: Path
    attempts: tuple[AttemptRecord, ...]
    series: Mapping[str, Series]
    evaluations: tuple[Evaluation, ...]  # by position
    problems: tuple[str, ...]  # unreadable lines and the like, each with its place
    axis: AxisKind = "step"
    trained: tuple[float, ...] = ()  # positions with a row of the training, increasing
    tables: Mapping[str, MetricTable] = field(default_factory=dict, repr=False)  # rows by their file
    evaluated: Mapping[str, Series] = field(default_factory=dict)  # by the evaluation of the last attempt

    def at(self, position: float) -> str:
        """A position in words: `step 40`, `epoch 1.5`, `row number 15`."""
        return place_text(self.axis, position)

    def may_go_on(self, sources: Iterable[Source]) -> bool:
        """True if rows that came after these may be lost with the log."""
        cut = [attempt.folder for attempt in self.attempts if attempt.is_cut]
        is_last = bool(cut) and cut[-1] == self.attempts[-1].folder
        files = [source.file for source in sources if source.file.endswith("/metrics.jsonl")]
        return any(is_last or file.rpartition("/")[0] in cut for file in files)


# --- out: numbers with sources -----------------------------------------------------------------------------

Unit = Literal["rate", "count", "seconds", "number", "difference"]
Recipe = Literal[
    "value",  # the number that stands there
    "median",  # of the numbers that stand there
    "elapsed",  # first number minus second number, both times, minus all others, which are seconds
    "row_count",  # rows of a metrics.jsonl
    "row_number",  # how many rows of metrics.jsonl there are up to this line
    "position",  # step or epoch of the row on this line, worked out from what the rows up to it name
    "position_count",  # different positions with a row of the training, of all attempts together
    "task_mean",  # mean of a measure over the tasks of one validation
    "task_sum",
    "task_min",
    "episode_std",  # standard deviation of the reward over all episodes of one validation
    "paired_difference",  # later minus earlier validation, over the tasks in both
]


@dataclass(frozen=True)
class Interval:
    """A 95 % interval and how it was computed."""

    low: float
    high: float
    method: str
    n: int  # tasks

    @property
    def text(self) -> str:
        """As shown, e.g. `[0.262, 0.321]`."""
        return f"[{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class Fact:
    """One number of the report: where it comes from, how it is computed, and the value that this gives.

    `measure`: for the task recipes, what is measured per task, such as "first@2"
    (`task_statistics.task_values`); `withheld`: why the number must not be shown.
    """

    id: str
    label: str
    unit: Unit
    recipe: Recipe
    sources: tuple[Source, ...]
    measure: str = ""
    note: str = ""
    value: float = math.nan
    interval: Interval | None = None
    withheld: str = ""

    @property
    def text(self) -> str:
        return "withheld" if self.withheld else number_text(self.value, self.unit)

    @property
    def with_interval(self) -> str:
        """`0.912 [0.889, 0.935]`, the interval being the 95 % one over tasks."""
        return f"{self.text} {self.interval.text}" if self.interval else self.text

    @property
    def place(self) -> str:
        return describe_sources(self.sources)


@dataclass(frozen=True)
class Discrepancy:
    """A number or file that is not what the report says."""

    where: str
    what: str


@dataclass(frozen=True)
class Figure:
    """A figure: files beside the report, and `data`, the chart as the page draws it."""

    name: str
    title: str
    caption: str
    data: Mapping[str, Any]
    files: tuple[str, ...]  # relative to the result folder; the last is its data

    @property
    def drawing(self) -> str:
        """The file with the picture; "" where only the page draws it."""
        return next((file for file in self.files if file.endswith(".svg")), "")


@dataclass(frozen=True)
class Report:
    """What `build_report` leaves behind."""

    html: Path
    json: Path
    headline: tuple[str, ...]  # lines for the terminal
    facts: Mapping[str, Fact]
    missing: tuple[str, ...]
    discrepancies: tuple[Discrepancy, ...]
    result: Mapping[str, Any] | None  # as result.json keeps it, None where no metric leads


def attempt_folder(number: int) -> str:
    return f"attempts/{number:02d}"


def describe_sources(sources: tuple[Source, ...]) -> str:
    """Sources in short: neighbouring lines of a file joined, e.g. `attempts/01/metrics.jsonl:3–12`."""
    joined: list[Source] = []
    for source in sources:
        before = joined[-1] if joined else Source("")
        is_next = source.line is not None and (before.last_line or before.line or 0) + 1 == source.line
        if is_next and before.file == source.file:
            joined[-1] = replace(before, last_line=source.last_line or source.line)
        else:
            joined.append(source)
    return listed([str(source) for source in joined], 3)
