"""One validation: sample every task, count, write down."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from trainer_core.types import Sample
from trainer_core.validation.files import MarkdownTable, ValidationRecord
from trainer_core.validation.pass_rates import TaskResult, ValidationResult

KEPT_SAMPLES = 8  # tasks of a validation whose texts are written down
_LONGEST_TEXT = 4000


def summarize(step: int, samples: Sequence[Sample]) -> ValidationResult:
    """Group samples, which lie together per task in the order of their attempts, into results per task."""
    results: list[TaskResult] = []
    for task_id, group in groupby(samples, key=lambda sample: sample.task.task_id):
        attempts = list(group)
        is_kept = len(results) < KEPT_SAMPLES
        results.append(
            TaskResult(
                task_id,
                rewards=tuple(sample.reward for sample in attempts),
                successes=tuple(sample.is_success for sample in attempts),
                query=attempts[0].task.main_query[:_LONGEST_TEXT] if is_kept else "",
                texts=tuple(sample.text[:_LONGEST_TEXT] for sample in attempts) if is_kept else (),
            )
        )
    return ValidationResult(step, tuple(results))


def write_down(result: ValidationResult, record: ValidationRecord, table: MarkdownTable | None) -> None:
    """Add a validation to `validation.jsonl` and to the table, if there is one."""
    record.write(result)
    if table is not None:
        values = {name.removeprefix("val/"): value for name, value in result.metrics().items()}
        table.write(result.step, values)
