"""The numbers that stand at a file, line and key, and what a recipe makes of them.

In: facts that name their `Source`s. Out: the same with their values; withheld where a source does not hold
its number. A metric row is also followed to the lines of the trainer's file or log that it was taken from:
these are read again, as they were when the run was watched, and must give the same value under the same name.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.metric_files import format_of
from harness.results import raw, task_statistics
from harness.results.types import Fact, Interval, Source, TaskResult
from monitors.logs import line_of
from monitors.metrics import MetricPatterns, Row
from monitors.metrics.parser import Found, MetricReader
from monitors.metrics.row import metric_name, number_of
from monitors.metrics_file import MetricTable, json_object


class SourceError(Exception):
    """A source is not there, or does not hold the number."""


def same_number(one: float, other: float) -> bool:
    """Equal up to the last digits of a float; NaN equals NaN."""
    return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)


def computed(
    result_dir: Path,
    facts: Iterable[Fact],
    patterns: MetricPatterns | None = None,
    tables: Mapping[str, MetricTable] = {},
) -> Iterator[Fact]:
    """The facts with values and intervals, each read from its sources and computed by its recipe. `patterns`:
    the plan's own for metric lines; `tables`: the rows of files that were read already."""
    facts = list(facts)
    sources = [source for fact in facts for source in fact.sources]
    reader = SourceReader(result_dir, sources, patterns, tables)
    for fact in facts:
        try:
            value, interval = _compute(fact, reader)
            yield replace(fact, value=value, interval=interval)
        except (SourceError, ValueError, LookupError, ArithmeticError, OSError) as error:
            yield replace(fact, withheld=str(error) or type(error).__name__)


def _compute(fact: Fact, reader: SourceReader) -> tuple[float, Interval | None]:
    if fact.recipe in ("row_count", "position_count"):
        count = reader.row_count if fact.recipe == "row_count" else reader.position_count
        return count(source.file for source in fact.sources), None
    if fact.recipe in ("row_number", "position"):
        number, position = reader.place(fact.sources[0])
        return (number if fact.recipe == "row_number" else position), None
    if fact.recipe in ("value", "median", "elapsed"):
        numbers = [reader.number(source) for source in fact.sources]
        if fact.recipe == "elapsed":
            return numbers[0] - sum(numbers[1:]), None
        return (numbers[0] if fact.recipe == "value" else float(np.median(numbers))), None
    validations = [reader.tasks(source) for source in fact.sources]
    return task_statistics.by_recipe(fact.recipe, validations, fact.measure, fact.unit)


class SourceReader:
    """Reads what these sources name: each file once, however many numbers stand in it."""

    def __init__(
        self,
        result_dir: Path,
        sources: Iterable[Source],
        patterns: MetricPatterns | None = None,
        tables: Mapping[str, MetricTable] = {},
    ) -> None:
        self._dir = result_dir
        self._lines: dict[str, dict[int, bytes]] = {}
        self._tables = dict(tables)
        self._read(sources)
        rows = [(file, line) for file, lines in self._lines.items() for line in lines.values()]
        origins = (_origin(file, json_object(line) or {}) for file, line in rows)
        self._origins = Origins(result_dir, filter(None, origins), patterns or MetricPatterns())

    def _read(self, sources: Iterable[Source]) -> None:
        wanted: dict[str, set[int]] = {}
        for source in sources:
            lines = wanted.setdefault(source.file, set())
            if source.line is not None:
                lines.update(range(source.line, (source.last_line or source.line) + 1))
        for file, lines in wanted.items():
            kept, path = self._lines.setdefault(file, {}), raw.file_inside(self._dir, file)
            if not lines or path is None:
                continue
            last = max(lines)
            with path.open("rb") as stream:
                for number, line in enumerate(stream, start=1):
                    if number in lines:
                        kept[number] = line
                    if number >= last:
                        break

    def number(self, source: Source) -> float:
        """The number at a source, also found where it was taken from."""
        row, key = self._row(source), source.key or ""
        values = row.get("values", row.get("data"))  # of a metrics.jsonl, of a journal
        value = raw.number_in(values if isinstance(values, dict) and key in values else row, key)
        if value is None:
            raise SourceError(f"{source} holds no number called {key!r}")
        origin = _origin(source.file, row)
        if origin is not None and not any(_holds(one, key, value) for one in self._origins.at(origin)):
            raise SourceError(f"{source} says {value!r}, but {origin}, where it was taken from, does not")
        return value

    def place(self, source: Source) -> tuple[int, float]:
        """Of the row on a line of metrics.jsonl: its number among the rows, and its position on the axis."""
        table = self._table(source.file)
        try:
            index = table.lines.index(source.line or 0)
        except ValueError:
            raise SourceError(f"{source} is no metric row") from None
        return index + 1, table.placed()[1][index]

    def row_count(self, files: Iterable[str]) -> int:
        return sum(len(self._table(file)) for file in files)

    def position_count(self, files: Iterable[str]) -> int:
        """How many positions have a row of the training; a later file replaces those from its first on."""
        return len(raw.merged_positions(self._table(file).trained() for file in files))

    def _table(self, file: str) -> MetricTable:
        if file not in self._tables:
            path = raw.file_inside(self._dir, file)
            if path is None:
                raise SourceError(f"{file} is not there any more")
            self._tables[file] = raw.metric_table(path, file, [])
        return self._tables[file]

    def text(self, source: Source) -> str:
        try:
            return self._lines[source.file][source.line or 0].decode("utf-8", errors="replace")
        except KeyError:
            raise SourceError(f"{source} is not there any more") from None

    def _row(self, source: Source) -> Mapping[str, Any]:
        """The JSON object, or the row of a Markdown table, that a source names; {} where it is neither."""
        path = raw.file_inside(self._dir, source.file)
        if path is None:
            raise SourceError(f"{source.file} is not there any more")
        if source.file.endswith(".md"):
            rows = raw.table_rows(raw.text_file(path) or "")
            found = next((row.data for row in rows if row.line == source.line), {})
            return {key: number_of(cell) for key, cell in found.items()}
        if source.line is not None:
            return json_object(self.text(source)) or {}
        return raw.json_file(path, source.file, []) or {}

    def tasks(self, source: Source) -> tuple[TaskResult, ...]:
        step = int((source.key or "").removeprefix("step "))
        lines = range(source.line or 0, (source.last_line or source.line or 0) + 1)
        there = self._lines.get(source.file, {})
        rows = (raw.Row(line, json_object(there[line]) or {}) for line in lines if line in there)
        tasks = raw.tasks_of(row for row in rows if raw.step_in(row.data) == step)
        if not tasks:
            raise SourceError(f"{source} holds no task results of {source.key}")
        return tasks


def _holds(row: Row, key: str, value: float) -> bool:
    """True if the row has this number under this name."""
    there: dict[str, float | None] = {"step": row.step, "epoch": row.epoch}
    there |= {metric_name(name): number for name, number in row.named().items()}
    found = there.get(metric_name(key))
    return found is not None and same_number(found, value)


def _origin(file: str, row: Mapping[str, Any]) -> Source | None:
    """The lines that a row of an attempt's metrics.jsonl or evaluation.jsonl was taken from."""
    origin = row.get("source")
    if not file.endswith(("/metrics.jsonl", "/evaluation.jsonl")) or not isinstance(origin, dict):
        return None
    name, line = origin.get("file"), origin.get("line")
    if not isinstance(name, str) or isinstance(line, bool) or not isinstance(line, int):
        return None
    first = origin.get("from", line)
    is_before = isinstance(first, int) and not isinstance(first, bool) and 0 < first <= line
    return Source(f"{file.rpartition('/')[0]}/{name}", first if is_before else line, line)


# --- where a metric row was taken from ---------------------------------------------------------------------


Rows = Mapping[int, Sequence[Row]]
Span = tuple[int, int]


class Origins:
    """The rows that a training printed or wrote, read again at some places of a folder and parsed as they
    were when the run was watched. Of a log only the lines are read that the rows need; the whole of it where
    these do not tell. `patterns`: the plan's own for metric lines."""

    def __init__(self, result_dir: Path, places: Iterable[Source], patterns: MetricPatterns) -> None:
        self._patterns = patterns
        spans: dict[str, set[Span]] = defaultdict(set)
        for place in places:
            last = place.last_line or place.line or 0
            spans[place.file].add((place.line or 0, last))
        self._rows = {file: self._read(result_dir, file, lines) for file, lines in spans.items()}

    def at(self, place: Source) -> Sequence[Row]:
        """The rows that end on the place's last line."""
        return self._rows.get(place.file, {}).get(place.last_line or place.line or 0, ())

    def _read(self, result_dir: Path, file: str, spans: set[Span]) -> Rows:
        path = raw.file_inside(result_dir, file)
        if path is None:
            return {}
        if (written := format_of(Path(file))) is not None:
            return _by_line(written.read(path))
        found = self._printed(path, _joined(spans))
        ends = {last for _, last in spans}
        return found if ends <= found.keys() else self._printed(path, [(1, max(ends))])

    def _printed(self, path: Path, spans: Sequence[Span]) -> Rows:
        return _by_line((one.line, one.row) for one in self._found(path, spans))

    def _found(self, path: Path, spans: Sequence[Span]) -> Iterator[Found]:
        """The rows of a log in these spans of its lines, which are in order and do not overlap."""
        left, reader = iter(spans), MetricReader(self._patterns)
        first, last = next(left, (0, 0))
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if number >= first:
                    yield from reader.read(line_of(number, line.rstrip(b"\n")))
                if number >= last:
                    yield from reader.end()
                    reader, (first, last) = MetricReader(self._patterns), next(left, (0, 0))
                    if not last:
                        return
        yield from reader.end()


def _joined(spans: Iterable[Span]) -> list[Span]:
    """The spans in order, those that overlap as one."""
    found: list[Span] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def _by_line(rows: Iterable[tuple[int, Row]]) -> Rows:
    found: dict[int, list[Row]] = defaultdict(list)
    for line, row in rows:
        found[line].append(row)
    return found
