"""Swarm servers in the test's event loop or in a thread, and behind them a training that has no model."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import uvicorn

from benchmarks._swarm_server import started
from benchmarks._swarm_training import FakeTraining
from trainer_core.swarm import training
from trainer_core.swarm.client import SwarmClient
from trainer_core.swarm.job import AgentJetJob
from trainer_core.swarm.ledger import Ledger
from trainer_core.swarm.server import SwarmServer

START_S = 20.0
AGENTS = httpx.Client(verify=False)
CONFIG = """
ajet:
  experiment_name: swarm
  experiment_dir: {folder}/run
  model: {{path: tiny}}
  data: {{train_batch_size: {tasks}}}
  rollout: {{num_repeat: 2, max_env_worker: 4}}
  swarm_mode_late_episodes: {late}
"""


def chat(base_url: str, api_key: str) -> str:
    """What an agent does: it calls the model with the key of its episode."""
    asked = {"model": "any", "messages": [{"role": "user", "content": "q"}]}
    headers = {"authorization": f"Bearer {api_key}"}
    answer = AGENTS.post(f"{base_url}/chat/completions", headers=headers, json=asked)
    return str(answer.raise_for_status().json()["choices"][0]["message"]["content"])


class Swarm:
    """A server in the test's event loop, and one who asks it; at a port, once it listens."""

    def __init__(self, folder: Path, trainings: Sequence[LedTraining] = (), token: str | None = None) -> None:
        """`trainings`: what it starts."""
        self.folder, self.trainings = folder, trainings
        self.ledger = Ledger(folder / "swarm.sqlite")
        self.server = SwarmServer(self.ledger, folder, secret=b"s" * 32, token=token)
        transport = httpx.ASGITransport(self.server)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://swarm:10086")
        self._tasks: list[asyncio.Task[None]] = []
        self._is_closed, self.port = False, 0

    async def listen(self, port: int = 0) -> None:
        """Be served at a port, with the training that an earlier one has started."""
        await self.server.engine.reopen()
        place = socket.create_server(("127.0.0.1", port), backlog=256)
        plain: Any = {"interface": "asgi3", "lifespan": "off", "log_level": "warning", "access_log": False}
        self._uvicorn = uvicorn.Server(uvicorn.Config(self.server, timeout_graceful_shutdown=1, **plain))
        waits = self._uvicorn.serve([place]), self.server.watch()
        self._tasks = [asyncio.create_task(each) for each in waits]
        self.port = int(place.getsockname()[1])
        self.http = httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", verify=False)

    async def close(self, *, kill: bool = False) -> None:
        """End it and its training; `kill`: the training goes on."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._tasks:
            self._uvicorn.should_exit, self._uvicorn.force_exit = True, kill
            await self._tasks[0]
            self._tasks += self._uvicorn.server_state.tasks
        for task in self._tasks:
            task.cancel()
        if not kill:
            await self.server.engine.close()
        elif (following := self.server.engine._following) is not None:
            following.cancel()
        await self.http.aclose()
        self.ledger.close()

    async def again(self) -> Swarm:
        """Another one that finds its training, after this one was killed."""
        await self.close(kill=True)
        other = Swarm(self.folder, self.trainings)
        await (other.listen(self.port) if self.port else other.server.engine.reopen())
        return other

    async def post(self, path: str, status: int = 200, **body: Any) -> dict[str, Any]:
        answer = await self.http.post(path, json=body)
        assert answer.status_code == status, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def status(self, **query: Any) -> dict[str, Any]:
        found: dict[str, Any] = (await self.http.get("/get_engine_status", params=query)).json()
        return found

    async def pool(self) -> dict[str, Any]:
        found: dict[str, Any] = (await self.http.get("/get_current_batch_rollout_pool_information")).json()
        return found

    async def until(self, state: str) -> dict[str, Any]:
        found = await self.status()
        while found["engine_status"] != f"ENGINE.{state}":
            found = await self.status(wait_s=5, seen=found["number"])
        return found

    async def configure(self, tasks: int = 2, late: str = "drain") -> None:
        config = CONFIG.format(folder=self.folder, tasks=tasks, late=late)
        await self.post("/sync_train_config", yaml_as_string=config)

    async def roll(self, step: int = 1, tasks: int = 2, late: str = "drain") -> LedTraining:
        await self.configure(tasks, late)
        await self.post("/start_engine")
        await self.trainings[-1].goes_on("collecting", step)
        await self.until("ROLLING")
        return self.trainings[-1]

    async def claim(self, client: str = "a", **more: Any) -> dict[str, Any]:
        return await self.post("/claim_episode", client_uuid=client, **more)

    async def call(self, claimed: dict[str, Any], status: int = 200) -> None:
        key = {"authorization": f"Bearer {claimed['openai_api_key']}"}
        url = f"{claimed['openai_base_url']}/chat/completions"
        answer = await self.http.post(url, json={"messages": []}, headers=key)
        assert answer.status_code == status, answer.text

    async def end(self, claimed: dict[str, Any], status: int = 200, **more: Any) -> dict[str, Any]:
        body = {"client_uuid": claimed["client_uuid"], "episode_uuid": claimed["episode_uuid"]}
        output = {"reward": more.pop("reward", 1.0), "metadata": {}}
        return await self.post(
            "/end_episode", status, **body | {"task_id": "t", "workflow_output": output} | more
        )

    async def play(self, task: str, reward: float = 1.0, **more: Any) -> dict[str, Any]:
        claimed = await self.claim(**more)
        await self.call(claimed)
        return await self.end(claimed, task_id=task, reward=reward)


class LedTraining(FakeTraining):
    """In the test's event loop, which says what it does."""

    saves = False
    """It takes its time to end when it is asked to, until it `dies`."""

    def __init__(self, number: int, lock: int) -> None:
        super().__init__()
        self.pid, self._lock = 2**30 + number, lock  # of no process

    @property
    def is_alive(self) -> bool:
        return self._lock >= 0

    def dies(self) -> None:
        if self.is_alive:
            self.hangs_up()
            os.close(self._lock)
            self._lock = -1


@pytest.fixture
async def trainings(monkeypatch: pytest.MonkeyPatch) -> list[LedTraining]:
    """What servers in this event loop have started, in its order."""
    made: list[LedTraining] = []
    loop = asyncio.get_running_loop()

    def start(command: list[str], *, pass_fds: list[int], env: dict[str, str], **how: Any) -> LedTraining:
        made.append(LedTraining(len(made), os.dup(pass_fds[0])))
        how["stdout"].write(b"error: no memory left\n")
        asyncio.run_coroutine_threadsafe(made[-1].listen(env[training.SOCKET]), loop).result(START_S)
        return made[-1]

    def signals(pid: int, number: int) -> None:
        (signalled,) = (each for each in made if each.pid == pid)
        if number == signal.SIGKILL or not signalled.saves:
            signalled.dies()

    monkeypatch.setattr(training, "subprocess", SimpleNamespace(Popen=start, DEVNULL=subprocess.DEVNULL))
    monkeypatch.setattr(training.os, "killpg", signals)
    return made


@pytest.fixture
def fake_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a server starts is no training, but the process `_swarm_training.py`."""
    replaced = SimpleNamespace(Popen=started, DEVNULL=subprocess.DEVNULL)
    monkeypatch.setattr(training, "subprocess", replaced)


class RunningSwarm:
    """A server in a thread, for clients that block; it can start again, on the same port and folder."""

    def __init__(self, folder: Path, token: str | None = None) -> None:
        self.folder, self.port, self._token = folder, 0, token
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._listens = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="swarm")
        self._thread.start()
        assert self._listens.wait(START_S)

    def stop(self, *, kill: bool = False) -> None:
        """See `Swarm.close`."""
        self._kill = kill
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()

    def call(self, work: Callable[[SwarmServer], Any]) -> Any:
        """What `work` returns, in the server's thread."""

        async def calling() -> Any:
            return work(self.server)

        return asyncio.run_coroutine_threadsafe(calling(), self._loop).result(START_S)

    async def _serve(self) -> None:
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        swarm = Swarm(self.folder, token=self._token)
        self.server = swarm.server
        await swarm.listen(self.port)
        self.port = swarm.port
        self._listens.set()
        await self._ending.wait()
        await swarm.close(kill=self._kill)


@pytest.fixture
def swarm(tmp_path: Path, fake_training: None) -> Iterator[RunningSwarm]:
    running = RunningSwarm(tmp_path / "server")
    yield running
    running.stop()


@pytest.fixture
def job(tmp_path: Path) -> AgentJetJob:
    return AgentJetJob(
        model="tiny", batch_size=2, num_repeat=2, experiment_dir=str(tmp_path / "run"), max_env_worker=8
    )


@pytest.fixture
def client(swarm: RunningSwarm, job: AgentJetJob) -> Iterator[SwarmClient]:
    """Of a server whose engine rolls."""
    client = SwarmClient(swarm.url, verbose=False)
    client.auto_sync_train_config_and_start_engine(job)
    yield client
    client.close()
