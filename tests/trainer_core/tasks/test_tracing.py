"""Tasks from recorded conversations."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from trainer_core.tasks.tracing import read_traces
from trainer_core.types import DataError, Task


def said(role: str, content: Any, **rest: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **rest}


def write(folder: Path, *rows: Any) -> str:
    path = folder / "traces.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return str(path)


def read(path: str) -> list[Task]:
    training, validation = read_traces(path)
    return [*training, *validation]


def test_a_task_begins_where_the_user_last_spoke_and_its_answer_is_the_last_text(tmp_path: Path) -> None:
    history = [
        said("system", "be kind"),
        said("user", "hi"),
        said("assistant", "hello"),
        said("user", "2+2?"),
    ]
    work = [
        said("assistant", None, tool_calls=[{"id": "1"}]),
        said("tool", "4"),
        said("assistant", [{"type": "text", "text": "It is 4."}]),
        said("assistant", ""),
    ]
    (task,) = read(write(tmp_path, {"messages": history + work}, history + work))
    assert (task.main_query, task.answer) == ("2+2?", "It is 4.")
    assert task.messages == history


def test_seven_of_ten_are_trained_on_always_the_same(tmp_path: Path) -> None:
    path = write(tmp_path, *([said("user", f"q{n}"), said("assistant", f"a{n}")] for n in range(20)))
    training, validation = read_traces(path)
    assert (len(training), len(validation)) == (14, 6)
    assert read_traces(path) == (training, validation)
    assert len({task.task_id for task in (*training, *validation)}) == 20


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"question": "q"}], r"traces\.jsonl:1: expected"),
        ([[said("user", "q"), {"content": "x"}]], r"traces\.jsonl:1: expected messages"),
        ([[said("user", "unanswered")]], "no tasks in it"),
        ([[said("assistant", "unasked")]], "no tasks in it"),
    ],
)
def test_what_holds_no_conversation_is_refused(tmp_path: Path, rows: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(write(tmp_path, *rows))


def test_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="name the file of recorded conversations"):
        read_traces(None)
    with pytest.raises(DataError, match=r"cannot read .*nowhere"):
        read_traces(str(tmp_path / "nowhere"))


def part(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}, {"type": "reasoning", "content": "?"}]}


def test_the_last_chat_of_each_trace_in_a_database(tmp_path: Path) -> None:
    path = tmp_path / "studio.db"
    spans = [
        ("t1", "chat", "20", {"gen_ai.input.messages": [part("user", "q1")],
                              "gen_ai.output.messages": json.dumps([part("assistant", "a1")])}),
        ("t1", "chat", "9", {"gen_ai.input.messages": [part("user", "early")]}),
        ("t1", "invoke_agent", "30", {}),
        ("t2", "chat", "5", {"gen_ai": {"input": {"messages": [part("user", "q2")]},
                                        "output": {"messages": [part("assistant", "a2")]}}}),
    ]  # fmt: skip
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE span_table (traceId, operationName, endTimeUnixNano, attributes)")
        database.executemany(
            "INSERT INTO span_table VALUES (?, ?, ?, ?)", [(*each[:3], json.dumps(each[3])) for each in spans]
        )
    assert sorted((task.main_query, task.answer) for task in read(str(path))) == [("q1", "a1"), ("q2", "a2")]
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE span_table")
    with pytest.raises(DataError, match=r"not a database of AgentScope Studio.*no such table"):
        read(str(path))
