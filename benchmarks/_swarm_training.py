"""A training without a model, for measurements of the swarm server: it answers, records and "learns" at once.

    python benchmarks/_swarm_training.py --conf CONFIG

Every batch that it learns from is written to `learned.jsonl` in the training's folder; with every fifth it
"saves a checkpoint", and goes on from the last when it is started again.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
import uvicorn

from trainer_core.config.load import load_config
from trainer_core.records.payload import pack, unpack
from trainer_core.swarm.ledger import read_batch
from trainer_core.swarm.training import SOCKET
from trainer_core.types import Call, Episode, Task

_EVERY = 5
_ORPHAN_S = 60.0


class FakeTraining:
    """Plays the part of `trainer_core.swarm.gate`."""

    def __init__(self, folder: Path, steps: int | None) -> None:
        self._folder, self._steps = folder, steps
        self._saved_at = folder / "saved_step"
        self.saved = int(self._saved_at.read_text()) if self._saved_at.is_file() else 0
        self.number, self.name, self.step = 0, "collecting", self.saved + 1
        self._changed = asyncio.Condition()
        self._calls: dict[str, int] = {}
        self.asked_at = time.monotonic()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        self.asked_at = time.monotonic()
        raw = b""
        while (message := await receive())["type"] == "http.request":
            raw += message.get("body", b"")
            if not message.get("more_body"):
                break
        path, headers = scope["path"], dict(scope["headers"])
        body = orjson.loads(raw) if raw else {}
        answer, more = await self._answer(path, body, headers)
        sent = answer if isinstance(answer, bytes) else orjson.dumps(answer)
        told = [(b"content-length", str(len(sent)).encode()), *more]
        await send({"type": "http.response.start", "status": 200, "headers": told})
        await send({"type": "http.response.body", "body": sent})

    async def _answer(self, path: str, body: Any, headers: dict[bytes, bytes]) -> tuple[Any, list[Any]]:
        if path == "/swarm/phase":
            async with self._changed:
                change = self._changed.wait_for(lambda: self.number != body["seen"])
                with suppress(TimeoutError):
                    await asyncio.wait_for(change, 30)
                told = {"number": self.number, "name": self.name, "step": self.step, "saved": self.saved}
            return told, []
        if path == "/swarm/batch":
            if body["step"] == self.step and self.name == "collecting":
                asyncio.get_running_loop().create_task(self._learn(body))
            return {}, []
        if path == "/swarm/close":
            calls = tuple(Call((1,), (2,), (-0.5,)) for _ in range(self._calls.pop(body["name"], 0)))
            task = Task(body["task_id"], **body["task"])
            output = body["output"]
            episode = Episode(task, 0, calls, reward=output["reward"], metadata={"name": body["name"]})
            return pack([episode]), [(b"x-ajet-calls", str(len(calls)).encode())]
        if path == "/swarm/drop":
            self._calls.pop(body["name"], None)
            return {}, []
        name = headers[b"authorization"].decode().removeprefix("Bearer ")
        self._calls[name] = self._calls.get(name, 0) + 1
        return {"choices": [{"message": {"role": "assistant", "content": "ok"}}]}, [
            (b"content-type", b"application/json")
        ]

    async def _learn(self, body: Any) -> None:
        await self._go_on("adv", self.step)
        handed = await asyncio.to_thread(read_batch, Path(body["ledger"]), body["run"], body["step"])
        episodes = [episode for payload in handed.training for episode in unpack(payload)]
        learned = [[one.metadata["name"].partition("/")[2], one.reward] for one in episodes]
        with (self._folder / "learned.jsonl").open("a") as file:
            file.write(json.dumps({"pid": os.getpid(), "step": self.step, "learned": learned}) + "\n")
        if self.step % _EVERY == 0:
            draft = self._saved_at.with_suffix(".draft")
            draft.write_text(str(self.step))
            draft.rename(self._saved_at)
            self.saved = self.step
        if self.step == self._steps:
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            await self._go_on("collecting", self.step + 1)

    async def _go_on(self, name: str, step: int) -> None:
        async with self._changed:
            self.number, self.name, self.step = self.number + 1, name, step
            self._changed.notify_all()


class _Server(uvicorn.Server):
    """Ends without a server of its own that asks it."""

    async def on_tick(self, counter: int) -> bool:
        idle_s = time.monotonic() - self.config.app.asked_at  # type: ignore[union-attr]
        return idle_s > _ORPHAN_S or await super().on_tick(counter)


def main() -> None:
    config = load_config(Path(sys.argv[2]), now=datetime.now()).config.ajet
    steps = config.trainer_common.total_training_steps
    app, socket = FakeTraining(Path(config.experiment_dir), steps), os.environ[SOCKET]
    plain: Any = {"interface": "asgi3", "lifespan": "off", "log_level": "error", "access_log": False}
    server = _Server(uvicorn.Config(app, uds=socket, timeout_graceful_shutdown=1, **plain))
    server.run()
    print("[ajet] done", flush=True)


if __name__ == "__main__":
    main()
