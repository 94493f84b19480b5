"""Sources opened again: the numbers that stand at a file, line and key, straight from the disk.

In: `Source`s. Out: numbers and task results, or `SourceError` where the number is not there. A metric row is
also followed to the line of the trainer's file or log that it was taken from.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.results.collect import tasks_of
from harness.results.raw import Row, number_in, parse_object, table_number, table_rows
from harness.results.types import Source, TaskResult

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf)\b", re.IGNORECASE)
ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


class SourceError(Exception):
    """A source is not there, or does not hold the number."""


def same_number(one: float, other: float) -> bool:
    """Equal up to the last digits of a float; NaN equals NaN."""
    return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)


class SourceReader:
    """Opens sources again; `fetch` first, so that each file is read once however many numbers stand in it."""

    def __init__(self, result_dir: Path) -> None:
        self._dir = result_dir
        self._lines: dict[str, dict[int, bytes]] = {}

    def fetch(self, sources: Iterable[Source]) -> None:
        """Read the lines that these sources name, and those that metric rows among them came from."""
        wanted = _by_file(sources)
        self._read(wanted)
        origins = []
        for file in wanted:
            for line in self._lines.get(file, {}).values():
                origin = _origin(file, parse_object(line) or {})
                if origin is not None:
                    origins.append(origin)
        self._read(_by_file(origins))

    def _read(self, wanted: Mapping[str, set[int]]) -> None:
        for file, lines in wanted.items():
            kept = self._lines.setdefault(file, {})
            path = self._path(file)
            if not lines or path is None or not path.is_file():
                continue
            last = max(lines)
            with path.open("rb") as stream:
                for number, line in enumerate(stream, start=1):
                    if number in lines:
                        kept[number] = line
                    if number >= last:
                        break

    def _path(self, file: str) -> Path | None:
        """The file, unless its name leads out of the result folder."""
        path = self._dir / file
        return path if path.resolve().is_relative_to(self._dir.resolve()) else None

    def number(self, source: Source) -> float:
        """The number at a source, also found where it was taken from."""
        row, key = self._row(source), source.key or ""
        values = row.get("values")
        value = number_in(values if isinstance(values, dict) and key in values else row, key)
        if value is None:
            raise SourceError(f"{source} holds no number called {key!r}")
        self._follow(source, row, value)
        return value

    def text(self, file: str, line: int) -> str:
        """A line that was fetched. Raises SourceError."""
        try:
            return self._lines[file][line].decode("utf-8", errors="replace")
        except KeyError:
            raise SourceError(f"{file}:{line} is not there any more") from None

    def _row(self, source: Source) -> Mapping[str, Any]:
        """The JSON object, or the row of a Markdown table, that a source names; {} where it is neither."""
        is_table = source.file.endswith(".md")
        if source.line is not None and not is_table:
            return parse_object(self.text(source.file, source.line)) or {}
        path = self._path(source.file)
        if path is None or not path.is_file():
            raise SourceError(f"{source.file} is not there any more")
        content = path.read_text(encoding="utf-8", errors="replace")
        if not is_table:
            return parse_object(content) or {}
        found = (row.data for row in table_rows(content) if row.line == source.line)
        return {key: table_number(str(cell)) for key, cell in next(found, {}).items()}

    def _follow(self, source: Source, row: Mapping[str, Any], value: float) -> None:
        """Look the value up on the line of the trainer's file or log that a metric row was taken from."""
        origin = _origin(source.file, row)
        if origin is None or origin.line is None:
            return
        line = self.text(origin.file, origin.line)
        data = parse_object(line)
        if data is not None:
            there = number_in(data, source.key or "")
            numbers = [] if there is None else [there]
        else:
            numbers = [float(number) for number in _NUMBER.findall(ANSI.sub("", line))]
        if not any(same_number(number, value) for number in numbers):
            raise SourceError(f"{source} says {value!r}, but {origin}, where it was taken from, does not")

    def row_count(self, file: str) -> int:
        """How many metric rows a file has."""
        path = self._path(file)
        if path is None or not path.is_file():
            raise SourceError(f"{file} is not there any more")
        with path.open("rb") as stream:
            return sum(isinstance((parse_object(line) or {}).get("values"), dict) for line in stream)

    def tasks(self, source: Source) -> tuple[TaskResult, ...]:
        """The tasks of one validation."""
        step = (source.key or "").removeprefix("step ")
        rows = []
        for line, content in sorted(self._lines.get(source.file, {}).items()):
            data = parse_object(content)
            if data is not None and _is_in(line, source) and str(_whole(data.get("step"))) == step:
                rows.append(Row(line, data))
        tasks = tasks_of(rows)
        if not tasks:
            raise SourceError(f"{source} holds no task results of {source.key}")
        return tasks


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_in(line: int, source: Source) -> bool:
    return source.line is not None and source.line <= line <= (source.last_line or source.line)


def _by_file(sources: Iterable[Source]) -> dict[str, set[int]]:
    wanted: dict[str, set[int]] = {}
    for source in sources:
        lines = wanted.setdefault(source.file, set())
        if source.line is not None:
            lines.update(range(source.line, (source.last_line or source.line) + 1))
    return wanted


def _origin(file: str, row: Mapping[str, Any]) -> Source | None:
    """The line that a row of an attempt's metrics.jsonl was taken from."""
    origin = row.get("source")
    if not file.endswith("/metrics.jsonl") or not isinstance(origin, dict):
        return None
    name, line = origin.get("file"), origin.get("line")
    if not isinstance(name, str) or isinstance(line, bool) or not isinstance(line, int):
        return None
    return Source(f"{file.rpartition('/')[0]}/{name}", line)
