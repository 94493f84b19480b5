"""What a validation leaves on disk: a line per task in `validation.jsonl`, a row in the Markdown table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import nan
from pathlib import Path
from typing import Any

from trainer_core.tracking.atomic import cut_back, write_atomically
from trainer_core.validation.pass_rates import KS, ValidationResult

_COUNTS = ("pass_n", "total_tasks", "num_all_success_tasks", "num_pass_n_tasks")


class ValidationFiles:
    """`validation.jsonl`, with `{"step", "task_id", "rewards", "successes"}` per task and validation, and
    `query` and `texts` of the tasks that are kept as samples; and a Markdown table with one row per step, of
    which a reader never sees half a row."""

    def __init__(self, record: Path, table: Path | None, pass_n: int, *, resume_step: int | None) -> None:
        """Keep what was written up to `resume_step`, of the table if its columns are these; None keeps
        nothing. `table`: None for none; its `@k` are those up to `pass_n`, the number of repeats, and 8."""
        self._record, self._table = record, table
        cut_back(record, resume_step)
        rates = [f"task_pass_rate@{k}" for k in KS if k <= min(pass_n, 8)]
        self._columns = ["step", *_COUNTS, *rates, "mean_reward", "std_reward"]
        self._rows: dict[int, str] = {}
        if table is not None and resume_step is not None and table.is_file():
            header, *rows = table.read_text(encoding="utf-8").splitlines() or [""]
            if header == _line(self._columns):
                steps = {int(row.split("|")[1]): row for row in rows[1:] if row.startswith("|")}
                self._rows = {step: row for step, row in steps.items() if step <= resume_step}

    def write(self, result: ValidationResult) -> None:
        """Add a validation; in the table it takes the place of an earlier one of the same step."""
        with self._record.open("a", encoding="utf-8") as file:
            for task in result.tasks:
                row: dict[str, Any] = {"step": result.step, **vars(task)}
                if not task.texts:
                    del row["query"], row["texts"]
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        if self._table is not None:
            values = result.metrics()
            found = (values.get(f"val/{column}", nan) for column in self._columns[1:])
            cells = [str(result.step), *map(_cell, found)]
            self._rows[result.step] = _line(cells)
            head = [_line(self._columns), _line(["---:"] * len(self._columns))]
            lines = [*head, *(self._rows[step] for step in sorted(self._rows))]
            write_atomically(self._table, "\n".join(lines) + "\n")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"
