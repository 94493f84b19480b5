"""What a validation leaves on disk: a row in the Markdown table, a line per task in `validation.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainer_core.tracking.atomic import cut_back, write_atomically
from trainer_core.validation.pass_rates import KS, ValidationResult

_COUNTS = ("pass_n", "total_tasks", "num_all_success_tasks", "num_pass_n_tasks")


class MarkdownTable:
    """A Markdown table with one row per step; a reader never sees half a row."""

    def __init__(self, path: Path, columns: tuple[str, ...], *, resume_step: int | None) -> None:
        """Keep the file's rows up to `resume_step`, if its columns are these; None keeps none."""
        self._path = path
        self._columns = columns
        self._rows: dict[int, str] = {}
        if resume_step is not None and path.is_file():
            header, *rows = path.read_text(encoding="utf-8").splitlines() or [""]
            if header == _line(columns):
                steps = {int(row.split("|")[1]): row for row in rows[1:] if row.startswith("|")}
                self._rows = {step: row for step, row in steps.items() if step <= resume_step}

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Add the row of a step, or replace it. `values` has every column but `step`."""
        self._rows[step] = _line((str(step), *(_cell(values[column]) for column in self._columns[1:])))
        rule = _line(tuple("---:" for _ in self._columns))
        lines = [_line(self._columns), rule, *(self._rows[number] for number in sorted(self._rows))]
        write_atomically(self._path, "\n".join(lines) + "\n")


def validation_columns(pass_n: int) -> tuple[str, ...]:
    """The columns of the validation table; `@k` only for k up to the number of repeats."""
    rates = tuple(f"task_pass_rate@{k}" for k in KS if k <= min(pass_n, 8))
    return ("step", *_COUNTS, *rates, "mean_reward", "std_reward")


class ValidationRecord:
    """Writes `validation.jsonl`: `{"step", "task_id", "rewards", "successes"}` per task and validation, and
    `query` and `texts` of the tasks that are kept as samples."""

    def __init__(self, path: Path, *, resume_step: int | None) -> None:
        """Drop lines after `resume_step`, which the resumed run writes again; None drops all."""
        self._path = path
        cut_back(path, resume_step)

    def write(self, result: ValidationResult) -> None:
        """Add the tasks of a validation."""
        with self._path.open("a", encoding="utf-8") as file:
            for task in result.tasks:
                row: dict[str, Any] = {
                    "step": result.step,
                    "task_id": task.task_id,
                    "rewards": task.rewards,
                    "successes": task.successes,
                }
                if task.texts:
                    row |= {"query": task.query, "texts": task.texts}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"
