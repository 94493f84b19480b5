"""Tasks from conversations that an agent had: a file of OpenAI's messages, or AgentScope Studio's
database."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from trainer_core.config.section import path_of
from trainer_core.tasks.jsonl import json_lines
from trainer_core.tasks.order import held_out
from trainer_core.tasks.rows import id_of, text_of, unique_tasks
from trainer_core.types import DataError, Task

_KEY = "task_reader.jsonl_dataset_file.training.file_path"
_SQLITE = b"SQLite format 3\0"


def read_traces(file_path: str | None) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """Tasks to train on and, three of ten, to validate on, by a fixed seed.

    A task begins with a conversation up to the last word of the user; its answer is the last text of the
    assistant after it. Conversations with the same question and answer are one task, whose id is the digest
    of both.

    Raises:
        DataError: no such file, a row of another form, or no conversation with question and answer in it.
    """
    if file_path is None:
        raise DataError(
            f"{_KEY}: name the file of recorded conversations, which task_reader.type: tracing reads"
        )
    path = path_of(file_path)
    try:
        with path.open("rb") as file:
            is_database = file.read(len(_SQLITE)) == _SQLITE
    except OSError as error:
        raise DataError(f"{_KEY}: cannot read {path.absolute()}: {error.strerror}") from None
    found: dict[str, Task] = {}
    for where, messages in _spans(path) if is_database else _rows(path):
        task = _task(where, messages)
        if task is not None:
            found.setdefault(task.task_id, task)
    tasks = unique_tasks(((task, str(path)) for task in found.values()), source=str(path))
    training, validation = held_out(tasks)
    return tuple(training), tuple(validation)


def _task(where: str, messages: list[Any]) -> Task | None:
    """None where nobody asks or nobody answers."""
    for message in messages:
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise DataError(f'{where}: expected messages such as {{"role": "user", "content": "…"}}')
    asked = [number for number, message in enumerate(messages) if message["role"] == "user"]
    if not asked:
        return None
    begin = messages[: asked[-1] + 1]
    replies = [text_of(each) for each in messages[len(begin) :] if each["role"] == "assistant"]
    question, answer = text_of(begin[-1]), next((text for text in reversed(replies) if text.strip()), "")
    if not question.strip() or not answer:
        return None
    return Task(
        id_of(question, answer), question, answer, init_messages=tuple(begin), metadata={"from": where}
    )


def _rows(path: Path) -> Iterator[tuple[str, list[Any]]]:
    """The messages of each line: `messages`, or a list itself."""
    for number, row in json_lines(path):
        messages = row.get("messages") if isinstance(row, dict) else row
        if not isinstance(messages, list):
            form = '{"messages": [{"role": "user", "content": "…"}, …]}'
            raise DataError(f"{path}:{number}: expected {form}")
        yield f"{path}:{number}", messages


def _spans(path: Path) -> Iterator[tuple[str, list[Any]]]:
    """What each trace's last call to a model was told and said, by the names of OpenTelemetry."""
    try:
        with closing(sqlite3.connect(f"file:{path.absolute()}?mode=ro", uri=True)) as database:
            rows = database.execute(
                "SELECT traceId, attributes FROM span_table WHERE operationName = 'chat' "
                "ORDER BY CAST(endTimeUnixNano AS INTEGER)"
            ).fetchall()
    except sqlite3.Error as error:
        raise DataError(
            f"{path}: not a database of AgentScope Studio, whose table `span_table` has traceId, attributes, "
            f"operationName and endTimeUnixNano: {error}"
        ) from None
    for trace, written in dict(rows).items():
        where = f"{path} trace {trace}"
        try:
            attributes = json.loads(written)
            said = [_attribute(attributes, f"gen_ai.{side}.messages") for side in ("input", "output")]
        except (ValueError, TypeError, AttributeError) as error:
            raise DataError(f"{where}: the attributes of its last chat cannot be read: {error}") from None
        yield where, [_message(each) for side in said for each in side]


def _attribute(attributes: Any, name: str) -> list[Any]:
    """An attribute under its dotted name or nested by it, as a list or as the text of one."""
    value = attributes.get(name)
    if value is None:
        value = attributes
        for part in name.split("."):
            value = (value or {}).get(part)
    value = json.loads(value) if isinstance(value, str) else value
    return value if isinstance(value, list) else []


def _message(message: Any) -> Any:
    """OpenTelemetry's `parts` as OpenAI's `content`."""
    if not isinstance(message, Mapping) or "parts" not in message:
        return message
    texts = [str(part.get("content", "")) for part in message["parts"] if part.get("type") == "text"]
    return {"role": message.get("role"), "content": "\n".join(texts)}
