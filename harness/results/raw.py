"""One reader per raw file of an attempt: tolerant of damaged lines, exact about where a number stands.

In: files in the formats of DESIGN sections 4 and 7. Out: rows with 1-based line numbers. A line that cannot
be read is passed over and named in `problems`; a file that is not there gives nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.results.types import TaskResult
from monitors.metrics.row import number_of, step_of
from monitors.metrics_file import MetricTable, json_object

_MAX_PROBLEMS = 20  # per file; a report needs no more to say that a file is damaged


@dataclass(frozen=True)
class Row:
    """One JSON line and where it stands."""

    line: int
    data: Mapping[str, Any]


def json_lines(path: Path, name: str, problems: list[str]) -> Iterator[Row]:
    """The JSON objects of a file, one per line; `name` is how the file is called in `problems`."""
    found = 0
    try:
        file = path.open("rb")
    except OSError as error:
        if not isinstance(error, FileNotFoundError):
            problems.append(f"{name}: cannot be read ({error.strerror})")
        return
    with file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            data = json_object(line)
            if data is not None:
                yield Row(number, data)
                continue
            found += 1
            if found <= _MAX_PROBLEMS:
                torn = " (cut off in the middle of writing)" if not line.endswith(b"\n") else ""
                problems.append(f"{name}:{number}: not a JSON object{torn}; passed over")
    if found > _MAX_PROBLEMS:
        problems.append(f"{name}: {found - _MAX_PROBLEMS} more unreadable lines")


def json_file(path: Path, name: str, problems: list[str]) -> dict[str, Any] | None:
    """A file that holds one JSON object."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        problems.append(f"{name}: cannot be read ({error.strerror})")
        return None
    data = json_object(content)
    if data is None:
        problems.append(f"{name}: not a JSON object")
    return data


def text_file(path: Path, limit: int = 2_000_000) -> str | None:
    """A text file, at most `limit` characters of it; None when there is none."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            text = file.read(limit + 1)
    except OSError:
        return None
    return text if len(text) <= limit else text[:limit] + "\n… (cut)\n"


def file_inside(folder: Path, name: str) -> Path | None:
    """The file; None where there is none, or its name leads out of the folder."""
    path = folder / name
    return path if path.is_file() and path.resolve().is_relative_to(folder.resolve()) else None


def number_in(data: Mapping[str, Any], key: str) -> float | None:
    """The number under `key`; None when there is none."""
    return number_of(data.get(key))


def table_rows(text: str) -> Iterator[Row]:
    """The rows of the Markdown tables in a text, as {column: cell text}."""
    header: list[str] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.lstrip().startswith("|"):
            header = None
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if header is None:
            header = cells
        elif not all(re.fullmatch(r":?-+:?", cell) for cell in cells) and len(cells) == len(header):
            yield Row(number, dict(zip(header, cells, strict=True)))


def step_in(data: Mapping[str, Any]) -> int | None:
    """The step of a row; None where there is none, or none that is a count."""
    step = number_in(data, "step")
    return step_of(step) if step is not None else None


def metric_table(path: Path, name: str, problems: list[str]) -> MetricTable:
    """The rows of a metrics.jsonl. What earlier versions wrote has no epoch."""
    table = MetricTable()
    for found in json_lines(path, name, problems):
        if not table.add(found.line, found.data):
            problems.append(f"{name}:{found.line}: no values; passed over")
    return table


def merged_positions(attempts: Iterable[Sequence[float]]) -> set[float]:
    """The positions of all attempts: each attempt replaces those from its first one on."""
    kept: set[float] = set()
    for places in attempts:
        first = min(places, default=math.inf)
        kept = {place for place in kept if place < first} | set(places)
    return kept


def tasks_of(rows: Iterable[Row]) -> tuple[TaskResult, ...]:
    """The tasks on these lines; the last line of a task counts."""
    tasks = (_task_of(row.data) for row in rows)
    return tuple({task.task_id: task for task in tasks if task is not None}.values())


def _task_of(data: Mapping[str, Any]) -> TaskResult | None:
    """One line of validation.jsonl; None when it is not a result with at least one episode."""
    rewards, successes = data.get("rewards"), data.get("successes")
    if "task_id" not in data or not isinstance(rewards, list) or not isinstance(successes, list):
        return None
    numbers = tuple(number for reward in rewards if (number := number_of(reward)) is not None)
    if not successes or not len(numbers) == len(rewards) == len(successes):
        return None
    if not all(isinstance(success, bool) for success in successes):
        return None
    return TaskResult(str(data["task_id"]), numbers, tuple(successes))
