"""Networks that break, clocks that jump, full disks, clients that never return: over real sockets."""

from __future__ import annotations

import asyncio
import json
import resource
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.trainer_core.swarm.conftest import LedTraining, Swarm
from trainer_core.swarm import connection, engine, server
from trainer_core.swarm.async_client import AsyncSwarmClient
from trainer_core.swarm.ledger import read_batch
from trainer_core.types import Task
from trainer_core.workflow import WorkflowOutput

CLAIM, CALL, END, ABORT = "/claim_episode", "/v1/chat/completions", "/end_episode", "/abort_episode"
SOON_S = 5.0
IDLE_S = 0.3
DAY_S = 86_400.0


@pytest.fixture
async def swarm(
    tmp_path: Path, trainings: list[LedTraining], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Swarm]:
    monkeypatch.setattr(connection, "_pause", lambda attempt, retry_after: 0.02)
    monkeypatch.setattr(server, "_LOOKS_S", 0.02)
    made = Swarm(tmp_path, trainings)
    await made.listen()
    yield made
    for training in trainings:
        training.saves = False
        training.dies()
    await made.close()


class Relay:
    """Between a client and the server; it breaks the connection once, at a point of a request of a path."""

    points = ("before the request", "in the request", "before the answer", "with the answer", "in the answer")

    def __init__(self, to_port: int, path: str, point: str) -> None:
        self._to_port, self._path, self.point = to_port, path, point

    async def listen(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, asked: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        answered, asks = await asyncio.open_connection("127.0.0.1", self._to_port)
        with suppress(OSError, EOFError):
            while not answers.is_closing():
                request, point = await _message(asked), ""
                if self._path.encode() in request.partition(b"\r\n")[0]:
                    point, self.point = self.point, ""
                if point != "before the request":
                    asks.write(request[:-5] if point == "in the request" else request)
                if point in self.points[:3]:
                    break
                answer = await _message(answered)
                if point != "with the answer":
                    answers.write(answer[:-5] if point == "in the answer" else answer)
                if point:
                    break
        asks.close()
        answers.close()


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    return head + await reader.readexactly(int(head.lower().partition(b"content-length:")[2].split()[0]))


async def _sends(swarm: Swarm, path: str, body: dict[str, Any], key: str = "", whole: bool = True) -> Any:
    """Send a request, and do not wait for its answer."""
    _, writer = await asyncio.open_connection("127.0.0.1", swarm.port)
    raw = json.dumps(body)
    head = f"POST {path} HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {key}\r\ncontent-length: {len(raw)}"
    writer.write(f"{head}\r\n\r\n{raw if whole else raw[:-5]}".encode())
    await writer.drain()
    return writer


def _report(claimed: dict[str, Any]) -> dict[str, Any]:
    names = {name: claimed[name] for name in ("client_uuid", "episode_uuid")}
    return names | {"task_id": "t", "workflow_output": {"reward": 1.0}}


def _on_disk(swarm: Swarm) -> list[str]:
    with sqlite3.connect(swarm.ledger.path) as database:
        return [row[0] for row in database.execute("SELECT uuid FROM finished ORDER BY rowid")]


def _time_passes(swarm: Swarm, seconds: float) -> None:
    clock = swarm.server.book._clock
    swarm.server.book._clock = lambda: clock() + seconds


async def _is_so(swarm: Swarm, what: Any) -> None:
    async with asyncio.timeout(SOON_S):
        while not what(swarm.server):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def _learns(swarm: Swarm, training: LedTraining) -> list[str]:
    """What the training is given for its first step, without anybody waiting for long."""
    async with asyncio.timeout(SOON_S):
        given = await training.was_asked("/swarm/batch")
    handed = map(json.loads, read_batch(swarm.ledger.path, given["run"], 1).training)
    return [each["name"].partition("/")[2] for each in handed]


@pytest.mark.parametrize("path", [CLAIM, END, ABORT])
@pytest.mark.parametrize("point", Relay.points)
async def test_a_connection_that_breaks_loses_nothing_and_doubles_nothing(
    swarm: Swarm, path: str, point: str
) -> None:
    training, relay = await swarm.roll(tasks=1), Relay(swarm.port, path, point)
    client = AsyncSwarmClient(await relay.listen(), verbose=False)
    ended = []
    for _ in range(3 if path == ABORT else 2):
        name, at = await client.begin_episode()
        await swarm.call({"openai_base_url": "/v1", "openai_api_key": at.api_key})
        if path == ABORT and relay.point:
            await client.abort_episode(name)
            assert not await client.can_continue_episode(name)
            continue
        answer = await client.end_episode("t", name, WorkflowOutput(1.0))
        assert answer["success"] and answer["recorded_calls"] == 1
        ended.append(name)
    assert not relay.point, "nothing was broken"
    _time_passes(swarm, 241.0)  # for an episode that was given in an answer that never came
    assert await _learns(swarm, training) == ended == _on_disk(swarm)
    assert not swarm.server.book.claims
    await client.close()


@pytest.mark.parametrize("jump_s", [-DAY_S, DAY_S])
async def test_a_wall_clock_that_jumps_neither_ends_nor_keeps_an_episode(
    swarm: Swarm, jump_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, ended = time.time, list[str]()
    training = await swarm.roll(tasks=1)
    for shift_s in (jump_s, 0.0):  # and back, while the next server runs
        begun, experiment_dir = time.monotonic(), swarm.server.engine.experiment_dir
        short, long = [await swarm.claim(discard_episode_timeout=idle_s) for idle_s in (IDLE_S, 60.0)]
        monkeypatch.setattr(time, "time", lambda shift_s=shift_s: real() + shift_s)
        await swarm.call(long)
        await _is_so(swarm, lambda server, name=short["episode_uuid"]: name not in server.book.claims)
        assert time.monotonic() - begun >= IDLE_S
        assert (await swarm.end(long))["success"]
        ended.append(long["episode_uuid"])
        if shift_s:
            swarm = await swarm.again()
            await swarm.until("ROLLING")
            assert swarm.server.engine.experiment_dir == experiment_dir
    assert await _learns(swarm, training) == ended
    await swarm.close()


@contextmanager
def _full(swarm: Swarm, how: str) -> Iterator[None]:
    """There is room for small things only."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    if how == "the commit fails":  # SIGXFSZ is ignored by Python
        written = swarm.ledger.path.with_name("swarm.sqlite-wal").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (written + 50_000, before[1]))
    else:
        swarm.ledger._database.execute("PRAGMA max_page_count = 40")
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    swarm.ledger._database.execute("PRAGMA max_page_count = 1000000")


@pytest.mark.parametrize("how", ["no page is left", "the commit fails"])
async def test_a_full_disk_acknowledges_nothing_and_goes_on_when_there_is_room(
    swarm: Swarm, how: str
) -> None:
    training = await swarm.roll(tasks=2)
    claims = [await swarm.claim() for _ in range(3)]
    client = AsyncSwarmClient(f"http://127.0.0.1:{swarm.port}", verbose=False)
    name, at = await client.begin_episode()
    for claimed in [*claims, {"openai_base_url": "/v1", "openai_api_key": at.api_key}]:
        await swarm.call(claimed)
    reports = [_report(claimed) | {"task": {"metadata": {"row": "x" * 300_000}}} for claimed in claims]
    with _full(swarm, how):
        task = Task("u", metadata={"row": "x" * 300_000})
        going_on = asyncio.create_task(client.end_episode(task, name, WorkflowOutput(1.0)))
        for _ in range(2):
            answers = await asyncio.gather(*(swarm.http.post(END, json=each) for each in reports))
            assert [(each.status_code, each.json()["code"]) for each in answers] == [(507, "not_durable")] * 3
        assert _on_disk(swarm) == [] and not swarm.server.book.finished and not going_on.done()
        assert (await swarm.status())["engine_status"] == "ENGINE.ROLLING"
    async with asyncio.timeout(SOON_S):
        assert (await going_on)["recorded_calls"] == 1, "the client goes on by itself"
        for task_id, report in zip("uvv", reports, strict=True):
            assert (await swarm.post(END, **report | {"task_id": task_id}))["recorded_calls"] == 1
    names = {name, *(claimed["episode_uuid"] for claimed in claims)}
    assert len(given := await _learns(swarm, training)) == 4 and {*given} == {*_on_disk(swarm)} == names
    await client.close()


OFF, KILLED = "machine off", "killed"


@pytest.mark.parametrize("state", ["ROLLING", "ROLLING_POST"])
@pytest.mark.parametrize(
    ("how", "moment"),
    [
        (OFF, "claimed"),
        (KILLED, "in a call"),
        (OFF, "in a call"),
        (OFF, "between calls"),
        (KILLED, "half of the end is sent"),
        (OFF, "half of the end is sent"),
        (KILLED, "the end is sent"),
    ],
)
async def test_a_batch_is_completed_without_a_client_that_vanishes(
    swarm: Swarm, state: str, how: str, moment: str
) -> None:
    training = await swarm.roll(tasks=1)
    doomed = await swarm.claim("doomed")
    if state == "ROLLING_POST":
        others = [await swarm.play("t") for _ in range(2)]
        assert (await swarm.status())["engine_status"] == "ENGINE.ROLLING_POST"
    held = training.holds[CALL if moment == "in a call" else "/swarm/close"] = asyncio.Event()
    if moment in ("between calls", "the end is sent"):
        await swarm.call(doomed)
    if moment == "in a call":
        connection = await _sends(swarm, CALL, {"messages": []}, doomed["openai_api_key"])
        await _is_so(swarm, lambda server: server.book.claims[doomed["episode_uuid"]].in_flight)
    elif "end" in moment:
        connection = await _sends(swarm, END, _report(doomed), whole=moment == "the end is sent")
    if moment == "the end is sent":
        await _is_so(swarm, lambda server: server.book.claims[doomed["episode_uuid"]].ending is not None)
    if how == KILLED:
        connection.transport.abort()
    training.holds.clear()
    if moment == "in a call" and how == KILLED:  # it is given up without an answer
        await _is_so(swarm, lambda server: not server.book.claims[doomed["episode_uuid"]].in_flight)
    else:
        held.set()
        claims = swarm.server.book.claims
        await _is_so(swarm, lambda _: not any(one.in_flight or one.ending for one in claims.values()))
    _time_passes(swarm, 241.0)
    is_kept = moment == "the end is sent"
    if state == "ROLLING":
        others = [await swarm.play("t") for _ in range(2 - is_kept)]
    given = await _learns(swarm, training)
    assert len(given) == len({*given}) == len(others) + is_kept and {*given} == {*_on_disk(swarm)}
    assert (doomed["episode_uuid"] in given) == is_kept
    await _is_so(swarm, lambda server: not server.book.claims)


@pytest.mark.parametrize("how", [KILLED, OFF])
@pytest.mark.parametrize(
    "state", ["BOOTING", "ROLLING", "ROLLING_POST", "WEIGHT_SYNCING", "WEIGHT_EXPORTING"]
)
async def test_who_vanishes_while_it_waits_keeps_nothing_from_others(
    swarm: Swarm, state: str, how: str
) -> None:
    """It waits for an episode, and for another state."""
    held: list[dict[str, Any]] = []
    if state == "BOOTING":
        await swarm.configure(tasks=1)
        await swarm.post("/start_engine")
    else:
        await swarm.roll(tasks=1)
        held = [await swarm.claim() for _ in range({"ROLLING": 4, "ROLLING_POST": 3}.get(state, 2))]
    training = swarm.trainings[-1]
    connections = [await _sends(swarm, "/start_engine", {})]
    for claimed in held[:2] if state.startswith(("ROLLING_P", "WEIGHT")) else []:
        await swarm.call(claimed)
        await swarm.end(claimed)
    if state == "WEIGHT_EXPORTING":
        await training.goes_on("save_checkpoint", 1)
    await swarm.until(state)
    ask = {"client_uuid": "doomed", "wait_s": 60, "discard_episode_timeout": IDLE_S}
    connections.append(await _sends(swarm, CLAIM, ask))
    await _is_so(swarm, lambda server: len(server.episodes._waiting) == 1)
    if how == KILLED:
        for connection in connections:
            connection.transport.abort()
        await _is_so(swarm, lambda server: not server.episodes._waiting)
    if held:
        await swarm.post(ABORT, client_uuid="a", episode_uuid=held[-1]["episode_uuid"])
    if state == "ROLLING_POST":
        await swarm.until("WEIGHT_SYNCING")
    if state != "ROLLING":
        await swarm.trainings[-1].goes_on("collecting", 2)
    async with asyncio.timeout(SOON_S):
        assert (await swarm.claim("other", wait_s=60))["success"]
    await _is_so(swarm, lambda server: "doomed" not in {one.client for one in server.book.claims.values()})


async def test_a_complete_batch_does_not_wait_long_for_a_silent_episode(swarm: Swarm) -> None:
    training = await swarm.roll(tasks=1)
    slow = await swarm.claim("slow", discard_episode_timeout=240)
    await swarm.call(slow)
    for _ in range(2):
        await swarm.play("A")
    status = await swarm.status()
    assert status["engine_status_detail"] == "the batch is complete, and waits for 1 episodes that run"
    _time_passes(swarm, 60.0)
    assert slow["episode_uuid"] not in await _learns(swarm, training)
    await swarm.call(slow)
    assert (await swarm.end(slow))["success"], "it was alive after all"
    await training.goes_on("collecting", 2)
    await swarm.until("ROLLING")
    assert swarm.server.book.uuids() == [slow["episode_uuid"]]


async def test_a_stopped_engine_says_that_it_still_saves_and_the_next_start_waits(
    swarm: Swarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = await swarm.roll()
    monkeypatch.setattr(engine, "_ANSWERS_S", 0.1)
    training.saves = True
    held = await swarm.claim(discard_episode_timeout=240)
    for _ in range(2):
        assert (await swarm.post("/stop_engine"))["success"]
        status = await swarm.status()
        assert status["engine_status"] == "ENGINE.OFFLINE" and "saves" in status["engine_status_detail"]
        assert "offline" in (await swarm.claim())["fail_cause"]
        assert (await swarm.end(held, 400))["code"] == "not_claimed"
        await swarm.configure(tasks=1)
        started = await swarm.post("/start_engine")
        assert started["pid"] is None and "saved its checkpoint" in started["detail"]
        assert (await swarm.status())["engine_status"] == "ENGINE.BOOTING" and len(swarm.trainings) == 1
    training.dies()
    await _is_so(swarm, lambda server: server.engine.training is not None)
    assert len(swarm.trainings) == 2
    await swarm.trainings[1].goes_on("collecting", 1)
    await swarm.until("ROLLING")
