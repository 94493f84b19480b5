"""From one row of somebody's data set to a `Task`: which keys hold the question, the answer and the id."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from trainer_core.types import DataError, Task

QUESTION_KEYS = ("main_query", "question", "prompt", "query", "problem")
ANSWER_KEYS = ("answer", "reference_answer", "reference", "target", "solution")
ID_KEYS = ("task_id", "id")
CONVERSATION_KEYS = ("init_messages", "messages", "prompt")

_GSM8K_ANSWER = re.compile(r"(?:^|\n)####\s*(-?[\d$.,/%]+)\s*$")


def task_from_row(
    row: Mapping[str, Any], *, where: str, fallback_id: str, needs_question: bool = True
) -> Task:
    """Make a task from a row.

    A conversation (`init_messages`, `messages`, or a `prompt` that is a list, in OpenAI's form) is gone on
    from when its last word is not the assistant's; where it is not the user's either, the question is put
    after it. `messages` that end with the assistant are an example to imitate, and only their row's
    question counts.

    Args:
        where: `file:line` or the like, for error messages.
        fallback_id: used when the row names no id.
        needs_question: False: a row may have none, for an agent that reads the row itself.

    Raises:
        DataError: no question; a question, answer or id that is not text or a number; a conversation or
        tools of another form than OpenAI's.
    """
    messages = _conversation(row, where)
    texts = {key: value for key, value in row.items() if key not in CONVERSATION_KEYS or _is_text(value)}
    question = _first(texts, QUESTION_KEYS, where)
    asked = bool(messages) and messages[-1]["role"] not in ("system", "developer", "assistant")
    if not asked and not needs_question:
        question = question or ""
    elif not asked and (question is None or not question.strip()):
        raise DataError(
            f"{where}: no question. A row needs a non-empty {' or '.join(QUESTION_KEYS[:3])}, or messages "
            f"that end with the user's; this one has {', '.join(map(str, row)) or 'no keys'}"
        )
    if messages and not asked:
        messages = [*messages, {"role": "user", "content": question}]
    answer = _first(row, ANSWER_KEYS, where)
    if answer is not None and (marked := _GSM8K_ANSWER.search(answer)):
        answer = marked.group(1)  # GSM8K writes the reasoning, then `#### 42`
    return Task(
        task_id=_first(row, ID_KEYS, where) or fallback_id,
        main_query=question if question is not None else text_of(messages[-1]),
        answer=answer,
        init_messages=tuple(messages),
        env_type=_first(row, ("env_type",), where) or "no_env",
        tools=tuple(_objects(row, "tools", where)),
        metadata=dict(row),
    )


def _conversation(row: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    """The messages to go on from; none where the row has no such."""
    for key in CONVERSATION_KEYS:
        if not row.get(key) or (key == "prompt" and _is_text(row[key])):
            continue
        messages = _objects(row, key, where)
        for message in messages:
            content = message.get("content", "")
            if not isinstance(message.get("role"), str) or not isinstance(content, str | list):
                raise DataError(
                    f'{where}: {key} must be messages such as {{"role": "user", "content": "…"}}; '
                    f"one is {str(message)[:80]}"
                )
        if key == "messages" and messages and messages[-1]["role"] == "assistant":
            continue
        return messages
    return []


def _objects(row: Mapping[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    """A list of JSON objects, or such a list as text (tables without nested types hold it so)."""
    value = row.get(key)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise DataError(f"{where}: {key} is text, but not JSON ({error})") from None
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
        raise DataError(f"{where}: {key} must be a list of JSON objects, not {type(value).__name__}")
    return [_without_null(each) for each in value]


def _without_null(value: Any) -> Any:
    """Tables give every object the keys of all others, with null in them."""
    if isinstance(value, Mapping):
        return {name: _without_null(part) for name, part in value.items() if part is not None}
    return [_without_null(part) for part in value] if isinstance(value, list) else value


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a message, whose content may be in parts."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(str(part["text"]) for part in content if isinstance(part, Mapping) and "text" in part)


def _is_text(value: Any) -> bool:
    return isinstance(value, (str, int, float))


def id_of(question: str, answer: str) -> str:
    """The id of a task that has none of its own: the digest of both."""
    return hashlib.sha256(json.dumps([question, answer]).encode()).hexdigest()[:16]


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
