"""How fast a swarm server gives out episodes and takes their ends, durably; how soon a waiting client wakes.

    python benchmarks/swarm.py [--clients 32] [--episodes 128 4096 20000 100000] [--wakes 200]

The server runs as it is, in a process of its own, with a training without a model behind it. Each client
claims an episode and ends it, over a connection of its own; no call of the model is made, so every pair costs
two requests and one row on the disk. A window of some thousand pairs is timed once so many episodes are
finished in the batch under way. Beside it, in the same run: the same requests to the bare HTTP server, which
answers without doing anything (what HTTP and the load itself cost), and to one that keeps so many episodes as
AgentJet does (`_swarm_peer.py`), which writes nothing to a disk.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil

from harness.machine.ports import a_free_port

_SERVER = str(Path(__file__).with_name("_swarm_server.py"))
_PEER = str(Path(__file__).with_name("_swarm_peer.py"))
_PEER_SIZES = 128, 4_096
_WINDOW = 2_000
_KILLS = 5
CONFIG = """
ajet:
  experiment_name: swarm
  experiment_dir: {folder}/run
  model: {{path: tiny}}
  data: {{train_batch_size: {tasks}}}
  rollout: {{num_repeat: 8, max_env_worker: 100000}}
  swarm_mode_sample_collection_max_cached_episodes: 10000000
"""


class Connection:
    """One HTTP connection, as cheap as can be: the load runs beside the server."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None

    async def post(self, path: str, body: dict[str, Any], key: str = "") -> dict[str, Any]:
        """The answer.

        Raises:
            OSError, EOFError: the server is not there, or went away.
        """
        return await self._ask(
            f"POST {path} HTTP/1.1\r\nauthorization: Bearer {key}", json.dumps(body).encode()
        )

    async def get(self, path: str) -> dict[str, Any]:
        """See `post`."""
        return await self._ask(f"GET {path} HTTP/1.1", b"")

    async def _ask(self, head: str, raw: bytes) -> dict[str, Any]:
        if self._reader is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            self._writer.write(f"{head}\r\nhost: h\r\ncontent-length: {len(raw)}\r\n\r\n".encode() + raw)
            headers = (await self._reader.readuntil(b"\r\n\r\n")).lower()
            if b"transfer-encoding: chunked" in headers:
                content = await self._chunks(self._reader)
            else:
                length = int(headers.partition(b"content-length:")[2].partition(b"\r\n")[0])
                content = await self._reader.readexactly(length)
            answer: dict[str, Any] = json.loads(content)
            return answer
        except BaseException:
            self._writer.close()
            self._reader = None
            raise

    @staticmethod
    async def _chunks(reader: asyncio.StreamReader) -> bytes:
        found = b""
        while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
            found += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
        return found


def start_server(folder: Path, port: int) -> subprocess.Popen[bytes]:
    """A swarm server on that folder."""
    command = [sys.executable, _SERVER, "start", "--swarm-port", str(port), "--dir", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=folder)


async def until(ask: Callable[[], Awaitable[bool]], limit_s: float = 60.0) -> float:
    """Seconds until something is so."""
    begun = time.monotonic()
    while time.monotonic() - begun < limit_s:
        try:
            if await ask():
                return time.monotonic() - begun
        except (OSError, EOFError):
            pass
        await asyncio.sleep(0.01)
    raise TimeoutError("the server did not come up")


async def rolling(port: int, config: str | None) -> None:
    """Bring a server's engine to ROLLING."""
    connection = Connection(port)

    async def is_up() -> bool:
        return bool(await connection.post("/get_episode_buffer", {}))

    async def is_rolling() -> bool:
        claim = {"client_uuid": "probe", "episode_type": "eval", "wait_s": 5}
        claimed = await connection.post("/claim_episode", claim)
        if claimed["success"]:
            await connection.post(
                "/abort_episode", {"client_uuid": "probe", "episode_uuid": claimed["episode_uuid"]}
            )
        return bool(claimed["success"])

    await until(is_up)
    if config is not None:
        told = await connection.post("/sync_train_config", {"yaml_as_string": config})
        assert told["success"], told
        await connection.post("/start_engine", {})
    await until(is_rolling)


async def pairs(port: int, clients: int, count: int) -> dict[str, list[float]]:
    """Claim and end `count` episodes; the seconds of each request."""
    seconds: dict[str, list[float]] = {"claim": [], "end": []}
    left = iter(range(count))

    async def client(number: int) -> None:
        connection, name = Connection(port), f"client-{number}"
        for place in left:
            begun = time.perf_counter()
            claimed = await connection.post("/claim_episode", {"client_uuid": name, "wait_s": 30})
            seconds["claim"].append(time.perf_counter() - begun)
            assert claimed["success"], claimed
            ended = {
                "client_uuid": name,
                "episode_uuid": claimed["episode_uuid"],
                "task_id": f"task-{place // 8}",
                "workflow_output": {"reward": 1.0, "metadata": {}},
            }
            begun = time.perf_counter()
            answer = await connection.post("/end_episode", ended)
            seconds["end"].append(time.perf_counter() - begun)
            assert answer["success"], answer

    await asyncio.gather(*map(client, range(clients)))
    return seconds


async def wakes(port: int, count: int) -> list[float]:
    """Seconds from the moment a place is given back to the moment a waiting client has it."""
    first, second = Connection(port), Connection(port)
    held = (await first.post("/claim_episode", {"client_uuid": "a", "wait_s": 30}))["episode_uuid"]
    found = []
    for _ in range(count):
        waiting = asyncio.create_task(second.post("/claim_episode", {"client_uuid": "b", "wait_s": 30}))
        await asyncio.sleep(0.02)
        begun = time.perf_counter()
        freed = asyncio.create_task(first.post("/abort_episode", {"client_uuid": "a", "episode_uuid": held}))
        given = await waiting
        found.append(time.perf_counter() - begun)
        await freed
        await second.post("/abort_episode", {"client_uuid": "b", "episode_uuid": given["episode_uuid"]})
        held = (await first.post("/claim_episode", {"client_uuid": "a", "wait_s": 30}))["episode_uuid"]
    return found


def _told(name: str, seconds: list[float]) -> str:
    cuts = statistics.quantiles(seconds, n=100)
    return f"{name} p50 {cuts[49] * 1e3:6.1f} ms  p99 {cuts[98] * 1e3:6.1f} ms"


def _start_peer(port: int, episodes: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, _PEER, str(port), str(episodes)])


async def _measure_peer(clients: int, episodes: int) -> None:
    port = a_free_port()
    peer = _start_peer(port, episodes)
    connection = Connection(port)
    await until(lambda: _answers(connection))
    begun = time.perf_counter()
    seconds = await pairs(port, clients, _WINDOW)
    rate = _WINDOW / (time.perf_counter() - begun)
    name = f"{episodes:8,} in AgentJet's way" if episodes else "    bare HTTP server"
    told = "   ".join(_told(what, each) for what, each in seconds.items())
    print(f"{name:25} {rate:8.0f} pairs/s   {told}", flush=True)
    peer.send_signal(signal.SIGINT)  # which its manager is told of too
    peer.wait()


async def _measure(clients: int, sizes: list[int], wake_count: int) -> None:
    for episodes in (0, *_PEER_SIZES):
        await _measure_peer(clients, episodes)
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), a_free_port()
        server = start_server(folder, port)
        await rolling(port, CONFIG.format(folder=folder, tasks=10_000_000))
        process, done = psutil.Process(server.pid), 0
        for size in sizes:
            if size > done:
                await pairs(port, clients, size - done)
                done = size
            cpu, begun = sum(process.cpu_times()[:2]), time.perf_counter()
            seconds = await pairs(port, clients, _WINDOW)
            spent, used = time.perf_counter() - begun, sum(process.cpu_times()[:2]) - cpu
            done += _WINDOW
            told = "   ".join(_told(name, each) for name, each in seconds.items())
            line = f"{size:8,} finished before  {_WINDOW / spent:8.0f} pairs/s"
            print(f"{line}   {told}   server's CPU {used / _WINDOW * 1e3:.2f} ms a pair", flush=True)
        again = []
        for _ in range(_KILLS):
            server.kill()
            server.wait()
            begun = time.perf_counter()
            server = start_server(folder, port)
            await rolling(port, None)
            again.append(time.perf_counter() - begun)
        told = ", ".join(f"{each:.2f}" for each in again)
        print(f"killed with {done:,} finished: gives out the next episode after {told} s", flush=True)
        server.send_signal(signal.SIGTERM)
        server.wait()
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), a_free_port()
        server = start_server(folder, port)
        config = CONFIG.format(folder=folder, tasks=1000).replace("100000}", "1}")
        await rolling(port, config)
        print(f"a waiting client wakes: {_told('', await wakes(port, wake_count))}", flush=True)
        server.send_signal(signal.SIGTERM)
        server.wait()


async def _answers(connection: Connection) -> bool:
    return bool(await connection.post("/", {}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--episodes", type=int, nargs="*", default=[128, 4_096, 20_000, 100_000])
    parser.add_argument("--wakes", type=int, default=200)
    given = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {given.clients} clients")
    asyncio.run(_measure(given.clients, given.episodes, given.wakes))
