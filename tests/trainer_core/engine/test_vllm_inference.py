"""The engine on a vLLM server, against one that does what it is told: who waits, who is told what, and how
often it is started. `tests/trainer_core/stack` has the real one."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

from trainer_core.config.schema import Ajet
from trainer_core.engine.protocols import Request
from trainer_core.engine.vllm.inference import VllmInference
from trainer_core.engine.vllm.server import VllmServer
from trainer_core.types import Sampling, TrainingError

REQUEST = Request([1, 2], Sampling(1.0), 4)
ANSWER = {
    "choices": [
        {
            "token_ids": [5],
            "finish_reason": "stop",
            "logprobs": {"content": [{"token_id": 5, "logprob": -0.5, "top_logprobs": []}]},
        }
    ]
}


class Server:
    """Stands for `VllmServer`, and for the client of it."""

    log = Path("vllm.log")
    timeout_s = 0.4
    given_up = " for 0.4 s"
    sleeps = False

    def __init__(self) -> None:
        self.is_running = True
        self.started = 0
        self.posted = 0
        self.commands: list[str] = []
        self.tokens: Iterator[float] = itertools.count(1.0)
        self.answers_after_s = 0.01
        self.on_post: Callable[[], None] = lambda: None
        self.on_start: Callable[[], None] = lambda: None
        self.on_command: Callable[[], None] = lambda: None

    def start(self) -> None:
        self.started += 1
        self.on_start()
        self.is_running = True

    def computed(self) -> float:
        return next(self.tokens)

    def write_stacks(self) -> None:
        self.commands.append("stacks")

    def ends_soon(self) -> bool:
        return not self.is_running

    def command(self, path: str, body: Any = None) -> None:
        self.commands.append(body["method"] if body else path)
        self.on_command()

    async def post(self, _url: str, json: Any) -> httpx.Response:
        self.posted += 1
        await asyncio.sleep(self.answers_after_s)
        if not self.is_running:
            raise httpx.ConnectError("nobody listens")
        self.on_post()
        return httpx.Response(200, json=ANSWER)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def engine(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VllmInference:
    monkeypatch.setattr(VllmInference, "_client", lambda self: server)
    return VllmInference(server, lambda folder: None, tmp_path)  # type: ignore[arg-type]


async def ask(engine: VllmInference, count: int = 1) -> list[Any]:
    return await asyncio.gather(*(engine.generate(REQUEST) for _ in range(count)), return_exceptions=True)


async def test_a_connection_that_was_dropped_is_tried_once_more(
    server: Server, engine: VllmInference
) -> None:
    dropped = [httpx.RemoteProtocolError("dropped")]

    def drop() -> None:
        if dropped:
            raise dropped.pop()

    server.on_post = drop
    (answer,) = await ask(engine)
    assert answer[0].ids == (5,) and (server.posted, server.started) == (2, 0)


async def test_a_living_server_that_does_not_answer_is_not_started(
    server: Server, engine: VllmInference
) -> None:
    def drop() -> None:
        raise httpx.ReadError("dropped")

    server.on_post = drop
    (failed,) = await ask(engine)
    assert isinstance(failed, TrainingError) and "does not answer" in str(failed) and server.started == 0


async def test_all_wait_for_one_start_and_it_gets_its_weights_again(
    server: Server, engine: VllmInference
) -> None:
    await engine.update_weights(3)
    server.commands.clear()
    server.is_running = False
    answers = await ask(engine, 12)
    assert all(answer[0].weight_version == 3 for answer in answers) and server.started == 1
    assert server.commands == ["take_weights", "/reset_prefix_cache"]


async def test_who_asks_while_it_starts_anew_waits_for_its_weights(
    server: Server, engine: VllmInference
) -> None:
    order: list[str] = []

    def load() -> None:
        if server.started and server.commands[-1] == "take_weights":
            time.sleep(0.3)  # it answers already
            order.append("weights")

    await engine.update_weights(3)
    server.on_command, server.on_post = load, lambda: order.append("answer")
    server.is_running, starts, loop = False, asyncio.Event(), asyncio.get_running_loop()
    server.on_start = lambda: loop.call_soon_threadsafe(starts.set)
    first = asyncio.create_task(engine.generate(REQUEST))
    await starts.wait()
    await engine.generate(REQUEST)
    await first
    assert order == ["weights", "answer", "answer"]


async def test_one_that_cannot_be_started_is_tried_once_for_all(
    server: Server, engine: VllmInference
) -> None:
    def fail() -> None:
        raise TrainingError("no memory")

    server.is_running, server.on_start = False, fail
    failed = await ask(engine, 12)
    assert {type(each) for each in failed} == {TrainingError} and "no memory" in str(failed[0])
    assert server.started == 1
    (again,) = await ask(engine)
    assert isinstance(again, TrainingError) and server.started == 1


@pytest.mark.parametrize("can_read", [True, False])
async def test_weights_on_its_gpu_are_read_there_or_come_as_files(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_read: bool
) -> None:
    exported: list[Path] = []

    def refuse() -> None:
        if server.commands[-1] == "take_shared" and not can_read:
            raise httpx.HTTPError("other torch")

    monkeypatch.setattr(VllmInference, "_client", lambda self: server)
    server.on_command = refuse
    weights = {"head": torch.ones(2)}
    engine = VllmInference(server, exported.append, tmp_path, lambda: weights)  # type: ignore[arg-type]
    await engine.update_weights(1)
    await engine.update_weights(2)
    server.is_running = False
    await ask(engine)
    reset = "/reset_prefix_cache"
    if can_read:
        assert server.commands == ["take_shared", reset] * 3 and not exported
    else:
        assert server.commands == ["take_shared", *["take_weights", reset] * 3] and len(exported) == 2


@pytest.mark.parametrize("sleeps", [True, False])
def test_a_server_on_a_gpu_is_started_so_that_it_can_sleep(tmp_path: Path, sleeps: bool) -> None:
    rollout, common = {"inference": "vllm", "free_cache_engine": sleeps}, {"device": "cuda"}
    ajet = Ajet.model_validate({"rollout": rollout, "trainer_common": common})
    server = VllmServer(ajet, "model", tmp_path / "vllm.log", tmp_path)
    server.close()
    assert server.sleeps is sleeps and ("--enable-sleep-mode" in server._arguments) is sleeps


async def test_it_sleeps_from_the_last_answer_to_the_new_weights(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def export(_folder: Path) -> None:
        server.commands.append("export")

    monkeypatch.setattr(VllmInference, "_client", lambda self: server)
    server.sleeps = True
    engine = VllmInference(server, export, tmp_path)  # type: ignore[arg-type]
    server.on_post = lambda: server.commands.append("answer")
    asked = asyncio.create_task(engine.generate(REQUEST))
    await asyncio.sleep(0)
    await engine.pause()
    await engine.update_weights(1)
    await engine.resume()
    await asked
    wake = [f"/wake_up?tags={part}" for part in ("weights", "kv_cache")]
    loaded = [wake[0], "take_weights", wake[1], "/reset_prefix_cache"]
    assert server.commands == ["answer", "/sleep?level=2", "export", *loaded]


async def test_one_that_dies_asleep_starts_with_the_new_weights_and_one_that_stays_awake_is_an_error(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        if not server.started:
            server.is_running = False
            raise httpx.ReadError("died")

    monkeypatch.setattr(VllmInference, "_client", lambda self: server)
    server.sleeps, server.on_command = True, refuse
    exported: list[Path] = []
    engine = VllmInference(server, exported.append, tmp_path)  # type: ignore[arg-type]
    await engine.pause()
    await engine.update_weights(1)
    assert server.started == 1 and len(exported) == 1
    assert server.commands[-3:] == ["take_weights", "/wake_up?tags=kv_cache", "/reset_prefix_cache"]

    def fail() -> None:
        raise httpx.HTTPError("not in sleep mode")

    server.on_command = fail
    with pytest.raises(TrainingError, match="does not give its memory back: not in sleep mode"):
        await engine.pause()


async def test_one_that_dies_over_its_weights_is_an_error_in_words(
    server: Server, engine: VllmInference
) -> None:
    def die() -> None:
        server.is_running = False
        raise httpx.ReadError("died")

    server.on_command = die
    with pytest.raises(TrainingError, match="could not be started again: died"):
        await engine.update_weights(1)
    assert server.started == 1


async def test_who_gives_up_while_it_is_paused_leaves_the_others_waiting(engine: VllmInference) -> None:
    await engine.pause()
    waiting, leaving = (asyncio.create_task(engine.generate(REQUEST)) for _ in range(2))
    await asyncio.sleep(0.05)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    assert not waiting.done()
    await engine.resume()
    assert (await waiting)[0].ids == (5,)


async def test_one_that_computes_is_waited_for(server: Server, engine: VllmInference) -> None:
    server.answers_after_s = 1.0
    (answer,) = await ask(engine)
    assert answer[0].ids == (5,) and server.commands == []


async def test_one_that_computes_nothing_is_given_up_once_for_all(
    server: Server, engine: VllmInference
) -> None:
    server.answers_after_s, server.tokens = 60.0, itertools.repeat(7.0)
    failed = await ask(engine, 5)
    assert {str(each) for each in failed} == {str(failed[0])} and "no token for 0.4 s" in str(failed[0])
    assert server.commands == ["stacks"] and server.posted == 5
    assert "no token" in str((await ask(engine))[0]) and server.posted == 5
    with pytest.raises(TrainingError, match="no token"):
        await engine.update_weights(1)
