"""All attempts' raw files, merged into one `Record`: a later attempt replaces steps from its first one on.

In: `<result_dir>/attempts/NN/`. Out: `Record` (metric series, validations, exit records, configs). Nothing is
written.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from harness.results import raw
from harness.results.types import (
    AttemptRecord,
    Evaluation,
    Recipe,
    Record,
    Series,
    Source,
    SourcedNumber,
    attempt_folder,
)
from monitors.metrics.axis import AXIS_WORDS, AxisKind
from monitors.metrics.names import is_validation
from monitors.metrics.row import number_of
from monitors.metrics_file import MetricTable

EVALUATION = "evaluation.jsonl"
_SPEED = re.compile(r"(?:time|per_second)$")  # of a validation: how long it took
_MAX_CONFIG = 200_000  # characters of a config that a report keeps


@dataclass
class _Attempt:
    """One attempt's files, read but not yet merged."""

    record: AttemptRecord
    series: dict[str, Series]
    evaluations: dict[float, Evaluation]
    table: MetricTable

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
    trained = tuple(sorted(raw.merged_positions(one.table.trained() for one in alike)))
    attempts = tuple(one.record for one in read)
    tables = {f"{one.record.folder}/metrics.jsonl": one.table for one in read}
    evaluated = _evaluated(result_dir, attempts[-1] if attempts else None, problems)
    return Record(
        result_dir, attempts, series, evaluations, tuple(problems), axis, trained, tables, evaluated
    )


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
    table = raw.metric_table(folder / "metrics.jsonl", f"{name}/metrics.jsonl", problems)
    series = _series(table, number)
    file = f"{name}/trainer/validation.jsonl"
    tasks = _read_tasks(result_dir / file, file, problems)
    reported: dict[float, dict[str, SourcedNumber]] = defaultdict(dict)
    for position, column, number_there in _reported(folder, name, series):
        reported[position][column] = number_there
    evaluations = {}
    for position in sorted({*tasks, *reported}):
        lines = tasks.get(int(position), []) if position == int(position) else []
        source = Source(file, lines[0].line, lines[-1].line, f"step {int(position)}") if lines else None
        known = reported.get(position, {})
        evaluations[position] = Evaluation(position, number, raw.tasks_of(lines), source, known)
    ended = raw.json_file(folder / "exit.json", f"{name}/exit.json", problems)
    config = raw.text_file(folder / "config.yaml", _MAX_CONFIG)
    axis, span = table.placed()[0], _span(f"{name}/metrics.jsonl", table)
    record = AttemptRecord(number, ended, config, len(table), span, axis, table.is_of_log)
    return _Attempt(record, series, evaluations, table)


def columns(table: MetricTable) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Of each metric in the order in which they come: the rows that have it, and its values there."""
    numbers: dict[str, int] = {}
    known = [[numbers.setdefault(name, len(numbers)) for name in names] for names in table.shapes]
    if not numbers:
        return {}
    kind = np.uint16 if len(numbers) < 1 << 16 else np.uint32  # of so few bits, sorting is quick
    shapes = [np.array(names, dtype=kind) for names in known]
    metric = np.concatenate([shapes[shape] for shape in table.shape])
    counts = np.array([len(names) for names in known])[np.frombuffer(table.shape, dtype=np.int32)]
    order = np.argsort(metric, kind="stable")
    values = np.frombuffer(table.values)[order]
    rows = np.repeat(np.arange(len(table), dtype=np.int32), counts)[order]
    ends = np.cumsum(np.bincount(metric, minlength=len(numbers))).tolist()
    return {
        name: (rows[start:end], values[start:end])
        for name, start, end in zip(numbers, (0, *ends[:-1]), ends, strict=True)
    }


def _evaluated(result_dir: Path, last: AttemptRecord | None, problems: list[str]) -> dict[str, Series]:
    """What the evaluation after the last attempt measured; {} where none ended well."""
    if last is None or raw.number_in(last.exit or {}, "evaluate_status") != 0:
        return {}
    name = f"{last.folder}/{EVALUATION}"
    table = raw.metric_table(result_dir / name, name, problems)
    return {key: replace(one, file=EVALUATION) for key, one in _series(table, last.number).items()}


def _series(table: MetricTable, attempt: int) -> dict[str, Series]:
    """Metrics that stand in every row share their positions and lines."""
    places, lines = np.array(table.placed()[1]), np.array(table.lines, dtype=np.int64)
    attempts = np.full(len(table), attempt, dtype=np.int64)
    shared = (places, attempts, lines)
    found = {}
    for key, (rows, values) in columns(table).items():
        own = shared if len(rows) == len(table) else tuple(column[rows] for column in shared)
        found[key] = Series(key, own[0], values, *own[1:])
    return found


def _span(file: str, table: MetricTable) -> tuple[SourcedNumber, SourcedNumber] | None:
    """The first and the last position, each with the recipe that gives it."""
    axis, places = table.placed()
    if not places:
        return None
    found = []
    for index in (int(np.argmin(places)), int(np.argmax(places))):
        recipe: Recipe = "value" if table.is_printed(index) else "position"
        key = axis if axis != "row" else None
        source = Source(file, table.lines[index], key=key)
        found.append(SourcedNumber(places[index], source, "row_number" if axis == "row" else recipe))
    return found[0], found[1]


def _read_tasks(path: Path, file: str, problems: list[str]) -> dict[int, list[raw.Row]]:
    found: dict[int, list[raw.Row]] = defaultdict(list)
    for row in raw.json_lines(path, file, problems):
        step = raw.step_in(row.data)
        if step is None or not raw.tasks_of([row]):
            problems.append(f"{file}:{row.line}: no step, task_id, rewards or successes; passed over")
        else:
            found[step].append(row)
    return found


def _reported(
    folder: Path, name: str, series: Mapping[str, Series]
) -> Iterator[tuple[float, str, SourcedNumber]]:
    """Position, column and number of what the trainer reported of validations: its Markdown table, then the
    metrics that are of a validation, which count where both are there."""
    for row in raw.table_rows(raw.text_file(folder / "validation.md") or ""):
        numbers = {column: number_of(cell) for column, cell in row.data.items()}
        step = raw.step_in(numbers)
        for column, value in numbers.items():
            if step is not None and column != "step" and value is not None:
                metric = f"task_pass_rate{column}" if re.fullmatch(r"@\d+", column) else column
                yield (
                    step,
                    metric,
                    SourcedNumber(value, Source(f"{name}/validation.md", row.line, key=column)),
                )
    for key, one in series.items():
        if is_validation(key) and not _SPEED.search(key):
            for index, (place, value) in enumerate(
                zip(one.positions.tolist(), one.values.tolist(), strict=True)
            ):
                yield place, key.removeprefix("val/"), SourcedNumber(value, one.source(index))


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
    whole = parts[0]
    if len(parts) > 1:
        columns = ((part.positions, part.values, part.attempts, part.lines) for part in parts)
        positions, values, attempts, lines = map(np.concatenate, zip(*columns, strict=True))
        whole = Series(key, positions, values, attempts, lines)
    gaps = np.diff(whole.positions)
    if (gaps > 0).all() or (axis != "step" and (gaps >= 0).all()):
        return whole
    order = np.argsort(whole.positions, kind="stable")
    if axis == "step":
        is_last = np.append(np.diff(whole.positions[order]) != 0, True)[: len(order)]
        order = order[is_last]
    return whole.at(order)
