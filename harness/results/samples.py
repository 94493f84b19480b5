"""What a model answered in the first and in the last validation, where the trainer wrote it down.

In: the `Record`. Out: `Sample`s, one per task that both validations have.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.results.raw import json_lines, step_in, tasks_of
from harness.results.types import Evaluation, Record, Source

_MOST = 8


Sample = Mapping[str, Any]
"""A task's `query`, and its `answers` in the first and the last validation."""


def samples(record: Record) -> tuple[Sample, ...]:
    """At most `_MOST` tasks; () where no answers were written down."""
    validations = [one for one in record.evaluations if one.tasks]
    ends = list({one.position: one for one in (*validations[:1], *validations[-1:])}.values())
    rows = [_answers(record, one) for one in ends]
    shared = [task for task in rows[0] if all(task in of for of in rows)] if rows else []
    both = ([of[task] for of in rows] for task in shared[:_MOST])
    return tuple({"query": answers[0]["query"], "answers": answers} for answers in both)


def episode_pages(record: Record) -> tuple[tuple[str, str], ...]:
    """When, and the page beside the first and the last validation that shows an episode token by token."""
    files = [(one.position, one.source.file) for one in record.evaluations if one.source]
    pages = zip((*files[:1], *files[-1:]), ("first", "last"), strict=False)
    named = {f"{Path(file).parent}/episodes/{name}.html": record.at(at) for (at, file), name in pages}
    return tuple((at, page) for page, at in named.items() if (record.result_dir / page).is_file())


def _answers(record: Record, evaluation: Evaluation) -> dict[str, Mapping[str, Any]]:
    """What was asked, and answered in the first try, in a validation, by task, where the texts were written
    down."""
    file, at = evaluation.source.file if evaluation.source else "", record.at(evaluation.position)
    found: dict[str, Mapping[str, Any]] = {}
    for row in json_lines(record.result_dir / file, file, []) if file else ():
        texts, tasks = row.data.get("texts"), tasks_of([row])
        if step_in(row.data) == evaluation.position and tasks and isinstance(texts, list) and texts:
            answer = {"position": at, "text": str(texts[0]), "is_success": tasks[0].successes[0]}
            asked = {"query": str(row.data.get("query", "")), "source": Source(file, row.line)}
            found[tasks[0].task_id] = answer | asked
    return found
