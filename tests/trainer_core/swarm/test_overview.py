"""Rows and lines, from canned answers; and the command, without a screen."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from trainer_core.swarm import cli, overview
from trainer_core.swarm.book import Book, Rules
from trainer_core.swarm.ledger import Finished
from trainer_core.swarm.overview import Reading
from trainer_core.swarm.states import Event
from trainer_core.swarm.wire import Claim

NOW = datetime(2026, 1, 2, 3, 4, 5)
STATUS = {"engine_status": "ENGINE.ROLLING", "engine_status_detail": "", "global_step": 4}


@pytest.fixture
def pool() -> dict[str, Any]:
    """What a real book says."""
    time = [100.0]
    book = Book(lambda: time[0])
    book.rules = Rules(batch_size=2, num_repeat=2)
    book.happened(Event.START)
    book.collect(5, ())
    book.happened(Event.COLLECTING)
    for client, task, reward in (
        ("ann", "sum", 1.0),
        ("bob", "sum", 0.0),
        ("ann", "sum", 0.5),
        ("ann", "x\x1b[2J", 1),
    ):
        claimed = book.claim(Claim(client_uuid=client))
        ended = Finished(claimed.uuid, "run", "train", client, task, reward, 4, 1, "", payload=b"")
        book.end(claimed, ended)
    book.abort(book.claim(Claim(client_uuid="bob")))
    for client, calls in (("cid", 3), ("ann", 12)):
        book.claim(Claim(client_uuid=client, discard_episode_timeout=60)).calls = calls
        time[0] += 7.0
    book.curve.extend([(1, 0.25), (2, 0.5), (3, 0.0), (4, 1.0)])
    return book.pool()


def texts(table: overview.Table, order: tuple[int, bool] | None = None, words: str = "") -> list[list[str]]:
    rows, _ = table.pick(10, order or table.order, words)
    return [[text for _, text in cells] for _, cells in rows]


def test_tables(pool: dict[str, Any]) -> None:
    running, tasks, clients = overview.tables(pool)
    assert [row[1:] for row in texts(running)] == [
        ["cid", "train", "3", "14 / 60", ""],
        ["ann", "train", "12", "7 / 60", ""],
    ]
    assert texts(tasks) == [["sum", "3", "0.500 ± 0.408", "2"], ["x", "1", "1.000 ± 0.000", "1"]]
    assert texts(clients) == [["ann", "1", "3"], ["bob", "0", "1"], ["cid", "1", "0"]]


def test_numbers_are_sorted_as_numbers(pool: dict[str, Any]) -> None:
    running = overview.tables(pool)[0]
    assert [row[3] for row in texts(running, (3, False))] == ["3", "12"]
    assert [row[3] for row in texts(running, (3, True))] == ["12", "3"]


def test_rows_that_contain_words_and_how_many_more(pool: dict[str, Any]) -> None:
    _, _, clients = overview.tables(pool)
    assert [row[0] for row in texts(clients, words="AN")] == ["ann"]
    rows, more = clients.pick(2, (0, True))
    assert [name for name, _ in rows] == ["cid", "bob"] and more == 1


def test_nothing_is_known_yet() -> None:
    assert [table.rows for table in overview.tables({})] == [[], [], []]
    assert overview.progress({}, 80) == []


def test_progress(pool: dict[str, Any]) -> None:
    lines = overview.progress(pool, 60)
    assert [line[:37].split() for line in lines[:3]] == [
        ["episodes", "4", "/", "4", "100%"],
        ["→", "tasks", "1", "/", "2", "50%"],
        ["non-dummy", "tasks", "1", "/", "2", "50%"],
    ]
    assert {len(line) for line in lines[:3]} == {60}
    assert lines[3].strip() == "2.0 of 2 episodes per task; until enough tasks"


@pytest.mark.parametrize(
    ("part", "bar"),
    [
        (0, "░░░░░░░░"),
        (0.5, "████░░░░"),
        (1, "████████"),
        (2, "████▓▓▓▓"),
        (8.75, "█▓▓▓▓▓▓▓"),
        (99, "█▓▓▓▓▓▓▓"),
    ],
)
def test_bar(part: float, bar: str) -> None:
    assert overview.bar(part, 8) == bar


def test_curve() -> None:
    assert overview.curve([(1, 0.0), (2, 0.5), (3, 1.0)], 10, 2) == [
        "Reward of steps 1 to 3: 0.000 → 1.000, highest 1.000",
        "▁▅█",
    ]
    assert overview.curve([(1, 0.0), (2, 1.0)], 10, 3)[1:] == [" █", "▁█"]
    assert overview.curve([(1, 0.5), (2, 0.5)], 10, 2)[1] == "▁▁"
    assert overview.curve([(at, at) for at in range(1000)], 50, 2)[1][::49] == "▁█"
    assert overview.curve([], 10, 2) == ["Reward: no step is done yet"]


def test_heading(pool: dict[str, Any]) -> None:
    reading = Reading(STATUS, pool)
    assert (
        overview.heading("URL", reading, NOW, 3600.0)[0] == "URL │ ROLLING for 1 h 00 min │ step 4 │ 03:04:05"
    )
    lost = Reading(STATUS, pool, error="refused")
    assert overview.heading("URL", lost, NOW, 61.0) == (
        "URL │ CANNOT_CONNECT │ 03:04:05",
        "refused; shown is ROLLING, as of 1 min 01 s ago",
    )


def test_plain_text(pool: dict[str, Any]) -> None:
    shown = overview.text("URL", Reading(STATUS, pool, [f"line {at}" for at in range(50)]), NOW)
    assert "Episodes so far: 4 finished, 1 aborted" in shown
    assert "Running (2)\nEPISODE   CLIENT  TYPE   CALLS  IDLE/PATIENCE s  TASK\n" in shown
    assert "CLIENT  RUNNING  ENDED IN BATCH\nann           1               3\n" in shown
    assert shown.endswith("line 48\nline 49") and "line 39" not in shown and "\x1b" not in shown


def test_plain_text_without_a_training() -> None:
    pool = Book(lambda: 0.0).pool()
    shown = overview.text("URL", Reading(STATUS | {"engine_status": "ENGINE.OFFLINE"}, pool), NOW)
    assert "OFFLINE" in shown and "a client starts one" in shown


# --- reading ------------------------------------------------------------------------------------------


async def _read(answer: Any) -> Reading:
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://s") as client:
        return await overview.read(client, Reading())


async def test_lines_of_a_log_cannot_change_the_terminal(pool: dict[str, Any]) -> None:
    log = {"lines": ["\x1b[31mred\x1b[0m\ttab", "plain"]}
    answers = {"/get_engine_status": STATUS, "/get_log_tail": log}
    reading = await _read(lambda request: httpx.Response(200, json=answers.get(request.url.path, pool)))
    assert list(reading.log) == ["red tab", "plain"] and not reading.error


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (httpx.Response(200, text="<html>"), "no swarm server (HTTP 200)"),
        (httpx.Response(200, json=[1]), "no swarm server (HTTP 200)"),
        (httpx.Response(200, json={"ok": 1}), "no engine_status in /get_engine_status"),
        (httpx.Response(401, json={"success": False, "error": "send the token"}), "send the token"),
    ],
)
async def test_answers_that_are_no_answer(answer: httpx.Response, error: str) -> None:
    assert error in (await _read(lambda request: answer)).error


# --- the command --------------------------------------------------------------------------------------


@pytest.fixture
def served(pool: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[httpx.Request]:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        answers = {"/get_engine_status": STATUS, "/get_log_tail": {"lines": ["begun"]}}
        return httpx.Response(200, json=answers.get(request.url.path, pool))

    real = httpx.AsyncClient
    monkeypatch.setattr(
        httpx, "AsyncClient", lambda **given: real(transport=httpx.MockTransport(answer), **given)
    )
    return asked


def test_once(served: list[httpx.Request]) -> None:
    done = CliRunner().invoke(cli.app, ["overwatch", "--swarm-url", "host:1", "--token", "abc", "--once"])
    assert done.exit_code == 0 and done.stdout.startswith("http://host:1 │ ROLLING for")
    assert str(served[0].url) == "http://host:1/get_engine_status"
    assert {request.headers["authorization"] for request in served} == {"Bearer abc"}


def test_json(served: list[httpx.Request], pool: dict[str, Any]) -> None:
    done = CliRunner().invoke(cli.app, ["top", "--once", "--json"])
    assert json.loads(done.stdout) == {
        "status": STATUS,
        "pool": json.loads(json.dumps(pool)),
        "log_tail": ["begun"],
    }


def test_a_server_that_is_not_there() -> None:
    done = CliRunner().invoke(cli.app, ["top", "--swarm-url", "http://127.0.0.1:9", "--json"])
    assert done.exit_code == 1
    assert json.loads(done.stdout)["status"]["engine_status"] == overview.CANNOT_CONNECT


def test_no_terminal_and_no_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = CliRunner().invoke(cli.app, ["top"])
    assert done.exit_code == 1 and "pip install" in done.stderr
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    done = CliRunner().invoke(cli.app, ["top"])
    assert done.exit_code == 1 and "no terminal" in done.stderr
