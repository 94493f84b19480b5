"""The training behind a swarm server: a process of its own, which outlives a server that is killed.

The server asks, over the private socket of `gate.py`; the training never asks. A file in the launch's folder
is locked by the training's process as long as it lives: so the next server knows whether it still does.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

from trainer_core.gateway.exchange import Exchange

SOCKET = "AJET_SWARM_SOCKET"
"""The environment variable that tells a training where it is asked."""
_LOOKS_S = 0.05
_LONGEST_PLACE = 80
_TAIL_BYTES = 64 * 1024
_LAST_LINES = 200
_ANSWERS_S = 60.0
_UNUSED_S = 2.0
"""After which a connection is given up. The gate gives its up after 5: a request in that moment is lost."""


@dataclass(frozen=True)
class Launch:
    """What finds a training again."""

    pid: int
    place: str
    """The folder of its socket and lock."""
    console: str
    """What it prints."""
    run: str
    """Name of its folder in the ledger."""

    def as_text(self) -> str:
        """For the ledger."""
        return json.dumps(asdict(self))

    @property
    def is_alive(self) -> bool:
        """True if its process still has its lock."""
        try:
            with Path(self.place, "alive").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False


def launch(folder: Path, config: Path, console: Path, run: str) -> Launch:
    """Start a training in a session of its own. Its lock and socket are in the server's folder, where nobody
    cleans up, unless the path would be too long for a socket.

    Raises:
        OSError: it cannot be started.
    """
    is_short = len(str(folder.absolute())) < _LONGEST_PLACE
    place = tempfile.mkdtemp(prefix="launch-", dir=folder.absolute() if is_short else None)
    console.parent.mkdir(parents=True, exist_ok=True)
    with Path(place, "alive").open("a") as lock, console.open("ab") as output:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = subprocess.Popen(
            [sys.executable, "-m", "trainer_core.cli", "--conf", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=[lock.fileno()],
            env={**os.environ, SOCKET: str(Path(place, "gate"))},
        )
    return Launch(process.pid, place, str(console), run)


class Training:
    """A training that runs, or did."""

    def __init__(self, launched: Launch) -> None:
        self.launch = launched
        limits = httpx.Limits(max_connections=None, keepalive_expiry=_UNUSED_S)
        transport = httpx.AsyncHTTPTransport(
            uds=str(Path(launched.place, "gate")), limits=limits, verify=False
        )
        self._client = httpx.AsyncClient(transport=transport, base_url="http://gate", timeout=None)

    async def ask(self, path: str, body: Mapping[str, Any]) -> httpx.Response:
        """The answer of its gate.

        Raises:
            httpx.HTTPError: it gives none.
        """
        answer = await self._client.post(f"/swarm/{path}", json=dict(body), timeout=_ANSWERS_S)
        return answer.raise_for_status()

    async def phase(self, seen: int) -> dict[str, Any] | None:
        """What it is doing, once that is not number `seen` any more, or after half a minute; None: it is
        dead."""
        while True:
            with suppress(httpx.HTTPError):
                found: dict[str, Any] = (await self.ask("phase", {"seen": seen})).json()
                return found
            if not self.launch.is_alive:
                return None
            await asyncio.sleep(_LOOKS_S)  # it boots: there is no socket yet

    @asynccontextmanager
    async def call(self, method: str, path: str, name: str, asked: Exchange) -> AsyncIterator[httpx.Response]:
        """A request of an agent in the episode `name` ("": in none), and its answer as it comes."""
        headers = {"content-type": "application/json"}
        if name:
            headers["authorization"] = f"Bearer {name}"
        for kept in ("x-stainless-retry-count", "idempotency-key"):  # so that a repeated call is seen as one
            if (value := asked.header(kept.encode())) is not None:
                headers[kept] = value.decode("latin-1")
        async with self._client.stream(method, path, content=asked.raw, headers=headers) as answer:
            yield answer

    async def stop(self, grace_s: float) -> None:
        """End it and all that it has started: it has so many seconds to save a checkpoint."""
        for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, _ANSWERS_S)):
            with suppress(ProcessLookupError):
                if self.launch.is_alive:
                    os.killpg(self.launch.pid, number)
            await asyncio.to_thread(self._wait_for_death, wait_s)

    def _wait_for_death(self, wait_s: float) -> None:
        until = time.monotonic() + wait_s
        while self.launch.is_alive and time.monotonic() < until:
            time.sleep(_LOOKS_S)

    def last_words(self) -> str:
        """Its last line of an error, else its last line."""
        lines = [line for line in tail_of(Path(self.launch.console), _LAST_LINES) if line.strip()]
        errors = [line for line in lines if line.startswith("error:")]
        return (errors or lines or ["it printed nothing"])[-1]

    def exit_status(self) -> int | None:
        """Once it is dead; None: another server has started it."""
        try:
            return os.waitstatus_to_exitcode(os.waitpid(self.launch.pid, 0)[1])
        except ChildProcessError:
            return None

    async def close(self) -> None:
        """Let go of it."""
        await self._client.aclose()
        if not self.launch.is_alive:
            await asyncio.to_thread(self.exit_status)
            shutil.rmtree(self.launch.place, ignore_errors=True)


def tail_of(path: Path, lines: int) -> list[str]:
    """The last lines of a file; [] where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return file.read().decode(errors="replace").splitlines()[-lines:]
    except OSError:
        return []
