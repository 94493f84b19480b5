"""All attempts' raw files, merged into one `Record`: a later attempt replaces steps from its first one on.

In: `<result_dir>/attempts/NN/`. Out: `Record` (metric series, validations, exit records, configs). Nothing is
written.
"""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.results.raw import (
    Row,
    RowPlaces,
    json_file,
    json_lines,
    merged_positions,
    step_in,
    table_number,
    table_rows,
    tasks_of,
    text_file,
)
from harness.results.types import (
    AttemptRecord,
    Evaluation,
    Position,
    Recipe,
    Record,
    Reported,
    Series,
    Source,
    attempt_folder,
)
from monitors.metrics.axis import AXIS_WORDS, AxisKind
from monitors.metrics.names import is_validation

_SPEED = re.compile(r"(?:time|per_second)$")  # of a validation: how long it took
_MAX_CONFIG = 200_000  # characters of a config that a report keeps


@dataclass
class _Attempt:
    """One attempt's files, read but not yet merged. `trained`: positions with a row of the training."""

    record: AttemptRecord
    series: dict[str, Series]
    evaluations: dict[float, Evaluation]
    trained: list[float]

    @property
    def first(self) -> float | None:
        """Its first position."""
        first = [self.record.span[0].value] if self.record.span else []
        return min([*first, *self.evaluations], default=None)


def collect(result_dir: Path) -> Record:
    """Read every attempt's raw files and merge them. Never fails for what the files hold."""
    problems: list[str] = []
    read = [_read_attempt(result_dir, number, problems) for number in attempt_numbers(result_dir)]
    axis: AxisKind = next((one.record.axis for one in reversed(read) if one.record.rows), "step")
    alike = [one for one in read if one.record.axis == axis or not one.record.rows]
    problems += (_left_out(one.record, axis) for one in read if one.record.rows and one.record.axis != axis)
    series, evaluations = _merged(alike, axis)
    trained = tuple(sorted(merged_positions([one.trained for one in alike])))
    attempts = tuple(one.record for one in read)
    return Record(result_dir, attempts, series, evaluations, tuple(problems), axis, trained)


def _left_out(attempt: AttemptRecord, axis: AxisKind) -> str:
    own, of_the_run = (AXIS_WORDS[kind] for kind in (attempt.axis, axis))
    return (
        f"{attempt.folder}/metrics.jsonl: counted by {own}, a later attempt by {of_the_run}; "
        "its rows are not part of the curves"
    )


def attempt_numbers(result_dir: Path) -> list[int]:
    """The attempts that have a folder, in order."""
    folder = result_dir / "attempts"
    if not folder.is_dir():
        return []
    return sorted(int(entry.name) for entry in folder.iterdir() if re.fullmatch(r"\d{2,9}", entry.name))


def _read_attempt(result_dir: Path, number: int, problems: list[str]) -> _Attempt:
    name = attempt_folder(number)
    folder = result_dir / name
    rows = RowPlaces()
    series, axis, places = _read_metrics(result_dir, number, rows, problems)
    file = f"{name}/trainer/validation.jsonl"
    tasks = _read_tasks(result_dir / file, file, problems)
    reported: dict[float, dict[str, Reported]] = defaultdict(dict)
    for position, column, number_there in _reported(folder, name, series):
        reported[position][column] = number_there
    evaluations = {}
    for position in sorted({*tasks, *reported}):
        lines = tasks.get(int(position), []) if position == int(position) else []
        source = Source(file, lines[0].line, lines[-1].line, f"step {int(position)}") if lines else None
        known = reported.get(position, {})
        evaluations[position] = Evaluation(position, number, tasks_of(lines), source, known)
    ended = json_file(folder / "exit.json", f"{name}/exit.json", problems)
    config = text_file(folder / "config.yaml", _MAX_CONFIG)
    span = _span(f"{name}/metrics.jsonl", rows, axis, places)
    record = AttemptRecord(number, ended, config, len(places), span, axis, rows.is_of_log)
    trained = [place for place, trains in zip(places, rows.trains, strict=True) if trains]
    return _Attempt(record, series, evaluations, trained)


def _read_metrics(
    result_dir: Path, attempt: int, rows: RowPlaces, problems: list[str]
) -> tuple[dict[str, Series], AxisKind, list[float]]:
    """Series, the kind of the axis, and the position of every row."""
    file = f"{attempt_folder(attempt)}/metrics.jsonl"
    columns: dict[str, array[float]] = defaultdict(lambda: array("d"))  # row, value and line, one by one
    for line, row in rows.read(result_dir / file, file, problems):
        for key, value in row.values.items():
            columns[key].extend((len(rows.lines) - 1, value, line))
    axis, places = rows.placed()
    positions = np.array(places, dtype=float)
    return {key: _series(key, attempt, column, positions) for key, column in columns.items()}, axis, places


def _series(key: str, attempt: int, column: array[float], positions: np.ndarray) -> Series:
    table = np.array(column).reshape(-1, 3)
    rows, lines = table[:, 0].astype(np.int64), table[:, 2].astype(np.int64)
    return Series(key, positions[rows], table[:, 1], np.full(len(table), attempt, dtype=np.int64), lines)


def _span(
    file: str, rows: RowPlaces, axis: AxisKind, places: list[float]
) -> tuple[Position, Position] | None:
    """The first and the last position, each with the recipe that gives it."""
    if not places:
        return None
    ends = (min(range(len(places)), key=places.__getitem__), max(range(len(places)), key=places.__getitem__))
    found = []
    for index in ends:
        recipe: Recipe = "value" if rows.is_printed(index, axis, places[index]) else "position"
        key = axis if axis != "row" else None
        source = Source(file, rows.lines[index], key=key)
        found.append(Position(places[index], source, "row_number" if axis == "row" else recipe))
    return found[0], found[1]


def _read_tasks(path: Path, file: str, problems: list[str]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for row in json_lines(path, file, problems):
        step = step_in(row.data)
        if step is None or not tasks_of([row]):
            problems.append(f"{file}:{row.line}: no step, task_id, rewards or successes; passed over")
        else:
            found[step].append(row)
    return found


def _reported(folder: Path, name: str, series: Mapping[str, Series]) -> Iterator[tuple[float, str, Reported]]:
    """Position, column and number of what the trainer reported of validations: its Markdown table, then the
    metrics that are of a validation, which count where both are there."""
    for row in table_rows(text_file(folder / "validation.md") or ""):
        numbers = {column: table_number(cell) for column, cell in row.data.items()}
        step = step_in(numbers)
        for column, value in numbers.items():
            if step is not None and column != "step" and value is not None:
                metric = f"task_pass_rate{column}" if re.fullmatch(r"@\d+", column) else column
                yield step, metric, Reported(value, Source(f"{name}/validation.md", row.line, key=column))
    for key, one in series.items():
        if is_validation(key) and not _SPEED.search(key):
            for index, (place, value) in enumerate(
                zip(one.positions.tolist(), one.values.tolist(), strict=True)
            ):
                yield place, key.removeprefix("val/"), Reported(value, one.source(index))


def _merged(attempts: list[_Attempt], axis: AxisKind) -> tuple[dict[str, Series], tuple[Evaluation, ...]]:
    """Metrics and validations of all attempts: each attempt replaces what is from its first step on."""
    parts: dict[str, list[Series]] = {}
    evaluations: dict[float, Evaluation] = {}
    for attempt in attempts:
        first = attempt.first
        if first is None:
            continue
        before, again = evaluations.get(first), attempt.evaluations.get(first)
        parts = {key: [part.at(part.positions < first) for part in found] for key, found in parts.items()}
        evaluations = {at: one for at, one in evaluations.items() if at < first} | attempt.evaluations
        if before and before.tasks and again and not again.tasks:
            evaluations[first] = before  # the row of the checkpoint that this attempt went on from
        for key, series in attempt.series.items():
            parts.setdefault(key, []).append(series)
    joined = {key: _joined(key, found, axis) for key, found in parts.items()}
    ordered = tuple(evaluations[at] for at in sorted(evaluations))
    return {key: series for key, series in joined.items() if len(series.positions)}, ordered


def _joined(key: str, parts: list[Series], axis: AxisKind) -> Series:
    """The parts one after the other, by position; of equal steps the last."""
    columns = ((part.positions, part.values, part.attempts, part.lines) for part in parts)
    whole = Series(key, *map(np.concatenate, zip(*columns, strict=True)))
    order = np.argsort(whole.positions, kind="stable")
    if axis == "step":
        is_last = np.append(np.diff(whole.positions[order]) != 0, True)[: len(order)]
        order = order[is_last]
    return whole.at(order)
