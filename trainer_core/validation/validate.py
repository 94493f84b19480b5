"""One validation: sample every task, count, write down."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from trainer_core.types import Episode
from trainer_core.validation.files import MarkdownTable, ValidationRecord
from trainer_core.validation.pass_rates import TaskResult, ValidationResult

KEPT_SAMPLES = 8  # tasks of a validation whose texts are written down
_LONGEST_TEXT = 4000


def summarize(step: int, episodes: Sequence[Episode]) -> ValidationResult:
    """Group episodes, which lie together per task in the order of their repeats, into results per task."""
    results: list[TaskResult] = []
    for task_id, group in groupby(episodes, key=lambda episode: episode.task.task_id):
        repeats = list(group)
        is_kept = len(results) < KEPT_SAMPLES
        results.append(
            TaskResult(
                task_id,
                rewards=tuple(episode.reward for episode in repeats),
                successes=tuple(episode.is_success for episode in repeats),
                query=repeats[0].task.main_query[:_LONGEST_TEXT] if is_kept else "",
                texts=tuple(episode.output[:_LONGEST_TEXT] for episode in repeats) if is_kept else (),
            )
        )
    return ValidationResult(step, tuple(results))


def write_down(result: ValidationResult, record: ValidationRecord, table: MarkdownTable | None) -> None:
    """Add a validation to `validation.jsonl` and to the table, if there is one."""
    record.write(result)
    if table is not None:
        values = {name.removeprefix("val/"): value for name, value in result.metrics().items()}
        table.write(result.step, values)
