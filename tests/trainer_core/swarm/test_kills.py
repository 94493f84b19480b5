"""The server is killed at any instant under load: what it has acknowledged is there, once."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from benchmarks.swarm import Connection, rolling, start_server, until
from harness.machine.ports import a_free_port

_CLIENTS = 64
CONFIG = """
ajet:
  experiment_name: swarm
  experiment_dir: {folder}/run
  model: {{path: tiny}}
  data: {{train_batch_size: 8}}
  rollout: {{num_repeat: 4, max_env_worker: 100}}
"""


@dataclass
class Seen:
    """What clients were told."""

    acknowledged: dict[str, float] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    stale: int = 0
    """Late ends, all of which must be refused."""


class Load:
    """Clients that never give up, and note what they were told."""

    def __init__(self, port: int, seed: int) -> None:
        self.seen, self.is_over = Seen(), False
        self._port, self._rewards, self._random = port, count(1), random.Random(seed)

    async def run(self) -> None:
        await asyncio.gather(*map(self._client, range(_CLIENTS)))

    async def _client(self, number: int) -> None:
        connection, name = Connection(self._port), f"client-{number}"
        while not self.is_over:
            is_late = number % 16 == 0
            ask = {"client_uuid": name, "wait_s": 1, "discard_episode_timeout": 0.2 if is_late else 30}
            claimed = await self._post(connection, "/claim_episode", ask, again=False)
            if not claimed.get("success"):
                continue
            uuid, reward = claimed["episode_uuid"], float(next(self._rewards))
            call = {"model": "m", "messages": [{"role": "user", "content": "q"}]}
            await self._post(
                connection, "/v1/chat/completions", call, again=False, key=claimed["openai_api_key"]
            )
            if is_late:
                await asyncio.sleep(0.8)
            ended = {
                "client_uuid": name,
                "episode_uuid": uuid,
                "task_id": f"task-{self._random.randrange(12)}",
                "workflow_output": {"reward": reward},
            }
            answer = await self._post(connection, "/end_episode", ended, again=True)
            if answer.get("success"):
                assert not is_late, "a late end was accepted"
                self.seen.acknowledged[uuid] = reward
            else:
                assert answer["code"] in ("not_claimed", "not_rolling"), answer
                self.seen.refused.add(uuid)
                self.seen.stale += is_late

    async def _post(
        self, connection: Connection, path: str, body: dict[str, Any], *, again: bool, key: str = ""
    ) -> dict[str, Any]:
        while True:
            try:
                answer = await connection.post(path, body, key)
            except (OSError, EOFError):
                await asyncio.sleep(0.02)
                if not again:
                    return {}
                continue
            if again and answer.get("code") == "no_training":
                await asyncio.sleep(0.05)
                continue
            return answer


def _learned(folder: Path) -> list[dict[str, Any]]:
    path = folder / "run" / "learned.jsonl"
    whole = path.read_text().rpartition("\n")[0] if path.is_file() else ""
    return [json.loads(line) for line in whole.splitlines()]


async def _learned_from(folder: Path, batches: int) -> None:
    async def is_so() -> bool:
        return len(_learned(folder)) >= batches

    await until(is_so, limit_s=120.0)


def _check(folder: Path, seen: Seen) -> None:
    database = sqlite3.connect(folder / "swarm.sqlite")
    kept = database.execute("SELECT uuid, reward, batch FROM finished").fetchall()
    database.close()
    rewards = {uuid: reward for uuid, reward, _ in kept}
    assert len(rewards) == len(kept)
    lost = {uuid for uuid, reward in seen.acknowledged.items() if rewards.get(uuid) != reward}
    assert not lost, f"{len(lost)} acknowledged rewards are lost"
    assert not seen.refused & rewards.keys(), "a refused end was kept"
    used = Counter(uuid for line in _learned(folder) for uuid, _ in line["learned"])
    assert not [uuid for uuid, times in used.items() if times > 1], "a reward was learned from twice"
    assert {uuid for uuid, _, batch in kept if batch is not None} >= used.keys()


async def _kill_again_and_again(folder: Path, kills: int, seed: int) -> tuple[Seen, list[float]]:
    port, chosen = a_free_port(), random.Random(seed)
    server = start_server(folder, port)
    await rolling(port, CONFIG.format(folder=folder))
    load = Load(port, seed)
    running, back = asyncio.create_task(load.run()), []
    try:
        for _ in range(kills):
            await asyncio.sleep(chosen.uniform(0.02, 1.0))
            server.kill()
            server.wait()
            begun = time.monotonic()
            server = start_server(folder, port)
            await rolling(port, None)
            back.append(time.monotonic() - begun)
            if running.done():
                break
        load.is_over = True
        await running
    finally:
        running.cancel()
        server.send_signal(signal.SIGTERM)
        await asyncio.to_thread(server.wait)
    return load.seen, back


@pytest.mark.parametrize("kills", [4, pytest.param(200, marks=pytest.mark.soak)])
async def test_nothing_acknowledged_is_lost_or_doubled(tmp_path: Path, kills: int) -> None:
    seen, back = await _kill_again_and_again(tmp_path, kills, seed=kills)
    _check(tmp_path, seen)
    assert len(back) == kills
    assert len(seen.acknowledged) > kills and seen.stale > 0
    print(
        f"{kills} kills: {len(seen.acknowledged)} acknowledged, {len(seen.refused)} refused ({seen.stale} of "
        f"them late), {len(_learned(tmp_path))} batches; serving again after {max(back):.2f} s at most"
    )


async def test_a_training_that_dies_learns_again_from_the_same_batches(tmp_path: Path) -> None:
    port = a_free_port()
    server = start_server(tmp_path, port)
    try:
        await rolling(port, CONFIG.format(folder=tmp_path))
        load, asked = Load(port, 1), Connection(port)
        running = asyncio.create_task(load.run())
        await _learned_from(tmp_path, 7)
        first = json.loads((tmp_path / "run" / "learned.jsonl").read_text().splitlines()[0])["pid"]
        os.kill(first, signal.SIGKILL)
        status: dict[str, Any] = {}
        while status.get("engine_status") != "ENGINE.OFFLINE":
            status = await asked.get("/get_engine_status")
        assert "died" in status["engine_status_detail"] and "console.log" in status["engine_status_detail"]
        await rolling(port, CONFIG.format(folder=tmp_path))
        await _learned_from(tmp_path, len(_learned(tmp_path)) + 4)
        load.is_over = True
        await running
    finally:
        server.send_signal(signal.SIGTERM)
        await asyncio.to_thread(server.wait)
    lines = _learned(tmp_path)
    once = {line["step"]: line["learned"] for line in lines if line["pid"] == first}
    again = {line["step"]: line["learned"] for line in lines if line["pid"] != first}
    assert once.keys() & again.keys(), "no step was learned from again"
    assert all(once[step] == again[step] for step in once.keys() & again.keys())
    assert sorted({*once, *again}) == list(range(1, max(again) + 1))
