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
    as_number,
    json_file,
    json_lines,
    step_in,
    table_number,
    table_rows,
    tasks_of,
    text_file,
)
from harness.results.types import (
    AttemptRecord,
    Evaluation,
    Record,
    Reported,
    Series,
    Source,
    attempt_folder,
)

_MAX_CONFIG = 200_000  # characters of a config that a report keeps


@dataclass
class _Attempt:
    """One attempt's files, read but not yet merged."""

    record: AttemptRecord
    series: dict[str, Series]
    evaluations: dict[int, Evaluation]

    @property
    def first_step(self) -> int | None:
        first = [int(self.record.span[0].value)] if self.record.span else []
        return min([*first, *self.evaluations], default=None)


def collect(result_dir: Path) -> Record:
    """Read every attempt's raw files and merge them. Never fails for what the files hold."""
    problems: list[str] = []
    read = [_read_attempt(result_dir, number, problems) for number in attempt_numbers(result_dir)]
    series, evaluations = _merged(read)
    return Record(result_dir, tuple(one.record for one in read), series, evaluations, tuple(problems))


def attempt_numbers(result_dir: Path) -> list[int]:
    """The attempts that have a folder, in order."""
    folder = result_dir / "attempts"
    if not folder.is_dir():
        return []
    return sorted(int(entry.name) for entry in folder.iterdir() if re.fullmatch(r"\d{2,9}", entry.name))


def _read_attempt(result_dir: Path, number: int, problems: list[str]) -> _Attempt:
    name = attempt_folder(number)
    folder = result_dir / name
    series, span, rows = _read_metrics(result_dir, number, problems)
    file = f"{name}/trainer/validation.jsonl"
    tasks = _read_tasks(result_dir / file, file, problems)
    reported: dict[int, dict[str, Reported]] = defaultdict(dict)
    for step, column, number_there in _reported(folder, name, series):
        reported[step][column] = number_there
    evaluations = {}
    for step in sorted({*tasks, *reported}):
        lines = tasks.get(step, [])
        source = Source(file, lines[0].line, lines[-1].line, f"step {step}") if lines else None
        evaluations[step] = Evaluation(step, number, tasks_of(lines), source, reported.get(step, {}))
    ended = json_file(folder / "exit.json", f"{name}/exit.json", problems)
    record = AttemptRecord(number, ended, text_file(folder / "config.yaml", _MAX_CONFIG), rows, span)
    return _Attempt(record, series, evaluations)


def _read_metrics(
    result_dir: Path, attempt: int, problems: list[str]
) -> tuple[dict[str, Series], tuple[Reported, Reported] | None, int]:
    """Series, lowest and highest step, number of rows; rows without a step are numbered from 1."""
    file = f"{attempt_folder(attempt)}/metrics.jsonl"
    columns: dict[str, array[float]] = defaultdict(lambda: array("d"))  # step, value and line, row by row
    ends: tuple[tuple[int, int], tuple[int, int]] | None = None  # step and line of the lowest, the highest
    rows = 0
    for row in json_lines(result_dir / file, file, problems):
        values = row.data.get("values")
        if not isinstance(values, dict):
            problems.append(f"{file}:{row.line}: no values; passed over")
            continue
        rows += 1
        step = step_in(row.data)
        here = (rows if step is None else step, row.line)
        ends = (min(ends[0], here), max(ends[1], here)) if ends else (here, here)
        for key, value in values.items():
            number = as_number(value)
            if number is not None:
                columns[key].extend((here[0], number, row.line))
    series = {key: _series(key, attempt, column) for key, column in columns.items()}
    if ends is None:
        return series, None, rows
    low, high = (Reported(step, Source(file, line, key="step")) for step, line in ends)
    return series, (low, high), rows


def _series(key: str, attempt: int, column: array[float]) -> Series:
    table = np.array(column).reshape(-1, 3)
    steps, lines = table[:, 0].astype(np.int64), table[:, 2].astype(np.int64)
    return Series(key, steps, table[:, 1], np.full(len(table), attempt, dtype=np.int64), lines)


def _read_tasks(path: Path, file: str, problems: list[str]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for row in json_lines(path, file, problems):
        step = step_in(row.data)
        if step is None or not tasks_of([row]):
            problems.append(f"{file}:{row.line}: no step, task_id, rewards or successes; passed over")
        else:
            found[step].append(row)
    return found


def _reported(folder: Path, name: str, series: Mapping[str, Series]) -> Iterator[tuple[int, str, Reported]]:
    """Step, column and number of what the trainer reported of validations: its Markdown table, then the
    metrics' `val/` keys, which count where both are there."""
    for row in table_rows(text_file(folder / "validation.md") or ""):
        numbers = {column: table_number(cell) for column, cell in row.data.items()}
        step = step_in(numbers)
        for column, value in numbers.items():
            if step is not None and column != "step" and value is not None:
                metric = f"task_pass_rate{column}" if re.fullmatch(r"@\d+", column) else column
                yield step, metric, Reported(value, Source(f"{name}/validation.md", row.line, key=column))
    for key, one in series.items():
        if key.startswith("val/"):
            for index, (step, value) in enumerate(zip(one.steps.tolist(), one.values.tolist(), strict=True)):
                yield step, key.removeprefix("val/"), Reported(value, one.source(index))


def _merged(attempts: list[_Attempt]) -> tuple[dict[str, Series], tuple[Evaluation, ...]]:
    """Metrics and validations of all attempts: each attempt replaces what is from its first step on."""
    parts: dict[str, list[Series]] = {}
    evaluations: dict[int, Evaluation] = {}
    for attempt in attempts:
        first = attempt.first_step
        if first is None:
            continue
        before, again = evaluations.get(first), attempt.evaluations.get(first)
        parts = {key: [part.at(part.steps < first) for part in found] for key, found in parts.items()}
        evaluations = {step: one for step, one in evaluations.items() if step < first} | attempt.evaluations
        if before and before.tasks and again and not again.tasks:
            evaluations[first] = before  # the row of the checkpoint that this attempt went on from
        for key, series in attempt.series.items():
            parts.setdefault(key, []).append(series)
    joined = {key: _joined(key, found) for key, found in parts.items()}
    ordered = tuple(evaluations[step] for step in sorted(evaluations))
    return {key: series for key, series in joined.items() if len(series.steps)}, ordered


def _joined(key: str, parts: list[Series]) -> Series:
    """The parts one after the other, by step; of equal steps the last."""
    columns = zip(*((part.steps, part.values, part.attempts, part.lines) for part in parts), strict=True)
    whole = Series(key, *map(np.concatenate, columns))
    order = np.argsort(whole.steps, kind="stable")
    is_last = np.append(np.diff(whole.steps[order]) != 0, True)[: len(order)]
    return whole.at(order[is_last])
