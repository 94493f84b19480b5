"""From one row of somebody's data set to a `Task`: which keys hold the question, the answer and the id."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from trainer_core.types import DataError, Task

QUESTION_KEYS = ("main_query", "question", "prompt", "query", "problem")
ANSWER_KEYS = ("answer", "reference_answer", "reference", "target", "solution")
ID_KEYS = ("task_id", "id")

_GSM8K_ANSWER = re.compile(r"(?:^|\n)####\s*(-?[\d$.,/%]+)\s*$")


def task_from_row(row: Mapping[str, Any], *, where: str, fallback_id: str) -> Task:
    """Make a task from a row.

    Args:
        where: `file:line` or the like, for error messages.
        fallback_id: used when the row names no id.

    Raises:
        DataError: no question, or a question, answer or id that is not text or a number.
    """
    question = _first(row, QUESTION_KEYS, where)
    if question is None or not question.strip():
        raise DataError(
            f"{where}: no question. A row needs a non-empty {' or '.join(QUESTION_KEYS[:3])}; "
            f"this one has {', '.join(map(str, row)) or 'no keys'}"
        )
    answer = _first(row, ANSWER_KEYS, where)
    if answer is not None and (marked := _GSM8K_ANSWER.search(answer)):
        answer = marked.group(1)  # GSM8K writes the reasoning, then `#### 42`
    return Task(
        task_id=_first(row, ID_KEYS, where) or fallback_id,
        main_query=question,
        answer=answer,
        metadata=dict(row),
    )


def unique_tasks(tasks: Iterable[tuple[Task, str]], *, source: str) -> tuple[Task, ...]:
    """Collect tasks, given with where they came from.

    Raises:
        DataError: an id occurs twice, or there is no task at all.
    """
    seen: dict[str, str] = {}
    kept: list[Task] = []
    for task, where in tasks:
        if task.task_id in seen:
            raise DataError(
                f"{where}: task_id {task.task_id!r} was already used at {seen[task.task_id]}; ids "
                "must be unique within a file"
            )
        seen[task.task_id] = where
        kept.append(task)
    if not kept:
        raise DataError(f"{source}: no tasks in it")
    return tuple(kept)


def _first(row: Mapping[str, Any], keys: tuple[str, ...], where: str) -> str | None:
    for key in keys:
        value = row.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise DataError(
                f"{where}: {key} must be text or a number, not {type(value).__name__}; write it as text"
            )
        return str(value)
    return None
