"""A swarm server in a thread of the test, and behind it a training that has no model."""

from __future__ import annotations

import asyncio
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import uvicorn

from trainer_core.swarm import training
from trainer_core.swarm.client import SwarmClient
from trainer_core.swarm.job import AgentJetJob
from trainer_core.swarm.ledger import Ledger
from trainer_core.swarm.server import SwarmServer

FAKE = Path(__file__).with_name("fake_training.py")
START_S = 20.0
AGENTS = httpx.Client(verify=False)


def chat(base_url: str, api_key: str) -> str:
    """What an agent does: it calls the model with the key of its episode."""
    asked = {"model": "any", "messages": [{"role": "user", "content": "q"}]}
    headers = {"authorization": f"Bearer {api_key}"}
    answer = AGENTS.post(f"{base_url}/chat/completions", headers=headers, json=asked)
    return str(answer.raise_for_status().json()["choices"][0]["message"]["content"])


class RunningSwarm:
    """A server that listens; `stop` and `start` it again, on the same port and folder."""

    def __init__(self, folder: Path, token: str | None = None) -> None:
        self.folder, self.port, self._token = folder, 0, token
        self._secret = secrets.token_bytes(32)
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
        """End it and its training; `kill`: the training goes on."""
        self._kill = kill
        self._loop.call_soon_threadsafe(setattr, self._uvicorn, "should_exit", True)
        self._thread.join()

    def call(self, work: Callable[[SwarmServer], Any]) -> Any:
        """What `work` returns, in the server's thread."""

        async def calling() -> Any:
            return work(self.server)

        return asyncio.run_coroutine_threadsafe(calling(), self._loop).result(START_S)

    async def _serve(self) -> None:
        self._loop, self._kill = asyncio.get_running_loop(), False
        ledger = Ledger(self.folder / "swarm.sqlite")
        self.server = SwarmServer(ledger, self.folder, secret=self._secret, token=self._token)
        await self.server.engine.reopen()
        config = uvicorn.Config(
            self.server,
            interface="asgi3",
            lifespan="off",
            log_level="warning",
            timeout_graceful_shutdown=1,
        )
        self._uvicorn = uvicorn.Server(config)
        with socket.socket() as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(("127.0.0.1", self.port))
            listening.listen(256)
            self.port = listening.getsockname()[1]
            self._listens.set()
            watching = asyncio.create_task(self.server.watch())
            await self._uvicorn.serve([listening])
        watching.cancel()
        if self._kill and (following := self.server.engine._following) is not None:
            following.cancel()
        else:
            await self.server.engine.close()
        ledger.close()


@pytest.fixture
def fake_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a server starts is no training, but `fake_training.py`."""

    def start(command: list[str], **how: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-S", "-E", str(FAKE), command[-1]], **how)

    replaced = SimpleNamespace(Popen=start, DEVNULL=subprocess.DEVNULL)
    monkeypatch.setattr(training, "subprocess", replaced)


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
