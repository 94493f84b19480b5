"""All attempts' raw files, merged into one `Record`: a later attempt replaces steps from its first one on.

In: `<result_dir>/attempts/NN/`. Out: `Record` (metric series, validations, exit records, configs). Nothing is
written.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from harness.results.raw import (
    Row,
    json_file,
    json_lines,
    number_in,
    table_number,
    table_rows,
    text_file,
)
from harness.results.types import (
    AttemptRecord,
    Evaluation,
    Record,
    Reported,
    Series,
    Source,
    TaskResult,
    attempt_folder,
)

_MAX_CONFIG = 200_000  # characters of a config that a report keeps
_MAX_SERIES = 500  # metrics a report follows; more are named in `problems`


@dataclass
class _Columns:
    """The values of one metric in one attempt, as they stand in the file."""

    steps: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))
    lines: array[int] = field(default_factory=lambda: array("q"))

    def series(self, key: str, attempt: int) -> Series:
        steps = np.array(self.steps, dtype=np.int64)
        attempts = np.full(len(steps), attempt, dtype=np.int64)
        return Series(key, steps, np.array(self.values), attempts, np.array(self.lines, dtype=np.int64))


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
    columns, span, rows = _read_metrics(folder / "metrics.jsonl", name, problems)
    series = {key: one.series(key, number) for key, one in columns.items()}
    tasks = _read_tasks(folder, name, problems)
    reported = _read_reported(folder, name, series)
    evaluations = {}
    for step in sorted({*tasks, *reported}):
        results, source = tasks.get(step, ((), None))
        evaluations[step] = Evaluation(step, number, results, source, reported.get(step, {}))
    ended = json_file(folder / "exit.json", f"{name}/exit.json", problems)
    record = AttemptRecord(number, ended, text_file(folder / "config.yaml", _MAX_CONFIG), rows, span)
    return _Attempt(record, series, evaluations)


def _read_metrics(
    path: Path, name: str, problems: list[str]
) -> tuple[dict[str, _Columns], tuple[Reported, Reported] | None, int]:
    """Columns, lowest and highest step, number of rows; rows without a step are numbered from 1."""
    columns: dict[str, _Columns] = {}
    low: tuple[int, int] | None = None  # step, line
    high: tuple[int, int] | None = None
    rows = 0
    dropped: set[str] = set()
    for row in json_lines(path, f"{name}/metrics.jsonl", problems):
        values = row.data.get("values")
        if not isinstance(values, dict):
            problems.append(f"{name}/metrics.jsonl:{row.line}: no values; passed over")
            continue
        rows += 1
        step = _step_of(row.data, rows)
        low = (step, row.line) if low is None else min(low, (step, row.line))
        high = (step, row.line) if high is None else max(high, (step, row.line))
        for key in values:
            number = number_in(values, key)
            if number is None:
                continue
            if key not in columns and len(columns) >= _MAX_SERIES:
                dropped.add(key)
                continue
            column = columns.setdefault(key, _Columns())
            column.steps.append(step)
            column.values.append(number)
            column.lines.append(row.line)
    if dropped:
        problems.append(
            f"{name}/metrics.jsonl: {len(dropped)} metrics beyond the first {_MAX_SERIES} left out"
        )
    if low is None or high is None:
        return columns, None, rows
    ends = [Reported(step, Source(f"{name}/metrics.jsonl", line, key="step")) for step, line in (low, high)]
    return columns, (ends[0], ends[1]), rows


def _step_of(data: Mapping[str, Any], otherwise: int) -> int:
    step = number_in(data, "step")
    return int(step) if step is not None and abs(step) < 2**53 else otherwise


def _read_tasks(
    folder: Path, name: str, problems: list[str]
) -> dict[int, tuple[tuple[TaskResult, ...], Source]]:
    """Per-task results of every validation; a task that stands twice for a step counts with its last line."""
    file = f"{name}/trainer/validation.jsonl"
    tasks: dict[int, dict[str, TaskResult]] = {}
    lines: dict[int, list[int]] = {}
    for row in json_lines(folder / "trainer" / "validation.jsonl", file, problems):
        step, task = number_in(row.data, "step"), task_of(row.data)
        if step is None or task is None:
            problems.append(f"{file}:{row.line}: no step, task_id, rewards or successes; passed over")
        elif step == step and abs(step) < 2**53:
            tasks.setdefault(int(step), {})[task.task_id] = task
            lines.setdefault(int(step), []).append(row.line)
    return {
        step: (tuple(found.values()), Source(file, lines[step][0], lines[step][-1], f"step {step}"))
        for step, found in tasks.items()
    }


def tasks_of(rows: Iterable[Row]) -> tuple[TaskResult, ...]:
    """The tasks on these lines; the last line of a task counts."""
    tasks = {}
    for row in rows:
        task = task_of(row.data)
        if task is not None:
            tasks[task.task_id] = task
    return tuple(tasks.values())


def task_of(data: Mapping[str, Any]) -> TaskResult | None:
    """One line of validation.jsonl; None when it is not a result with at least one episode."""
    rewards, successes = data.get("rewards"), data.get("successes")
    if "task_id" not in data or not isinstance(rewards, list) or not isinstance(successes, list):
        return None
    numbers = [r if type(r) is float else number_in({"reward": r}, "reward") for r in rewards]
    if not successes or len(rewards) != len(successes) or any(number is None for number in numbers):
        return None
    if not all(isinstance(success, bool) for success in successes):
        return None
    return TaskResult(
        str(data["task_id"]), tuple(number for number in numbers if number is not None), tuple(successes)
    )


def _read_reported(folder: Path, name: str, series: Mapping[str, Series]) -> dict[int, dict[str, Reported]]:
    """What the trainer reported per validation: the metrics' `val/` keys, else its Markdown table."""
    reported: dict[int, dict[str, Reported]] = {}
    for row in table_rows(text_file(folder / "validation.md", 2_000_000) or ""):
        step = table_number(str(row.data.get("step", "")))
        if step is None or step != step or abs(step) >= 2**53:
            continue
        for column, cell in row.data.items():
            value = table_number(cell)
            if column != "step" and value is not None:
                metric = f"task_pass_rate{column}" if re.fullmatch(r"@\d+", column) else column
                source = Source(f"{name}/validation.md", row.line, key=column)
                reported.setdefault(int(step), {})[metric] = Reported(value, source)
    for key, one in series.items():
        if key.startswith("val/"):
            for index, (step, value) in enumerate(zip(one.steps.tolist(), one.values.tolist(), strict=True)):
                name_of = key.removeprefix("val/")
                reported.setdefault(step, {})[name_of] = Reported(value, one.source(index))
    return reported


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
