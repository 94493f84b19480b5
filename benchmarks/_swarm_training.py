"""A training without a model, for tests and measurements of the swarm server.

    python benchmarks/_swarm_training.py --conf CONFIG

It answers, records and "learns" at once. Every batch that it learns from is written to
`learned.jsonl` in the training's folder; with every fifth it "saves a checkpoint", and goes on from the last
when it is started again. Without a folder it does what a test says, in the test's event loop.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from trainer_core.swarm.ledger import read_batch

_EVERY = 5
_ORPHAN_S = 60.0
_WAIT_S = 0.5
"""Of a phase: short, so that servers often see the same one again."""


class FakeTraining:
    """Plays the part of `trainer_core.swarm.gate`, at a Unix socket."""

    def __init__(self, folder: Path | None = None, steps: int | None = None) -> None:
        self._folder, self._steps = folder, steps
        self.asked: list[tuple[str, Any]] = []
        """Path and body of what it was asked, but for its phase; a call's body has the episode's `name`."""
        self.holds: dict[str, asyncio.Event] = {}
        """Requests of these paths wait for the event before they are looked at."""
        self.answers = True
        """False: it hangs up on all that asks."""
        self.asked_at = time.monotonic()
        self.is_done = asyncio.Event()
        self._calls: Counter[str] = Counter()
        self._closed: dict[str, tuple[bytes, int]] = {}
        self._writers: set[asyncio.StreamWriter] = set()
        self._changed = asyncio.Condition()
        self._phase: dict[str, Any] = {"number": 0, "name": "booting", "step": 0, "saved": 0}

    async def listen(self, path: str) -> None:
        """Be there to be asked, and begin if nobody else says when."""
        self._server = await asyncio.start_unix_server(self._serve, path)
        if self._folder is not None:
            saved_at = self._folder / "saved_step"
            saved = int(saved_at.read_text()) if saved_at.is_file() else 0
            await self.goes_on("collecting", saved + 1, saved)

    def hangs_up(self) -> None:
        """Nobody is here any more."""
        self._server.close()
        for writer in self._writers:
            writer.close()

    async def goes_on(self, name: str, step: int, saved: int = 0) -> None:
        """Begin a phase."""
        async with self._changed:
            number = self._phase["number"] + 1
            self._phase = {"number": number, "name": name, "step": step, "saved": saved}
            self._changed.notify_all()

    async def was_asked(self, path: str) -> Any:
        """The body of the last request to a path, once there is one."""

        def bodies() -> list[Any]:
            return [body for asked, body in self.asked if asked == path]

        async with self._changed:
            await self._changed.wait_for(bodies)
            return bodies()[-1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with suppress(OSError, EOFError):
            while True:
                first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
                raw = await reader.readexactly(int(headers.get("content-length", 0)))
                name = headers.get("authorization", "").removeprefix("Bearer ")
                answer, calls = await self._answer(first.split()[1], json.loads(raw or b"{}"), name)
                if not self.answers:
                    break
                head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-ajet-calls: {calls}\r\n"
                writer.write(f"{head}content-length: {len(answer)}\r\n\r\n".encode() + answer)
        self._writers.discard(writer)
        writer.close()

    async def _answer(self, path: str, body: Any, caller: str) -> tuple[bytes, int]:
        self.asked_at = time.monotonic()
        if path == "/swarm/phase":
            async with self._changed:
                change = self._changed.wait_for(lambda: self._phase["number"] != body["seen"])
                with suppress(TimeoutError):
                    await asyncio.wait_for(change, _WAIT_S)
                return json.dumps(self._phase).encode(), 0
        async with self._changed:
            self.asked.append((path, body | {"name": caller} if caller else body))
            self._changed.notify_all()
        if path in self.holds:
            await self.holds[path].wait()
        if not self.answers:
            return b"", 0
        if path == "/swarm/batch" and self._folder is not None:
            if (self._phase["name"], self._phase["step"]) == ("collecting", body["step"]):
                self._learning = asyncio.create_task(self._learn(self._folder, **body))
        elif path == "/swarm/close":
            if (name := body["name"]) not in self._closed:
                self._closed[name] = json.dumps(body).encode(), self._calls.pop(name, 0)
            return self._closed[name]
        elif path == "/swarm/drop":
            self._calls.pop(body["name"], None)
        elif caller:
            self._calls[caller] += 1
            message = {"role": "assistant", "content": "answer"}
            return json.dumps({"choices": [{"index": 0, "message": message}]}).encode(), 0
        return b"{}", 0

    async def _learn(self, folder: Path, ledger: str, run: str, step: int) -> None:
        saved: int = self._phase["saved"]
        await self.goes_on("adv", step, saved)
        handed = await asyncio.to_thread(read_batch, Path(ledger), run, step)
        ends = [json.loads(payload) for payload in handed.training]
        learned = [[end["name"].partition("/")[2], end["output"]["reward"]] for end in ends]
        line = json.dumps({"pid": os.getpid(), "step": step, "learned": learned}) + "\n"
        with (folder / "learned.jsonl").open("ab", buffering=0) as file:
            file.write(line.encode())
        if step % _EVERY == 0:
            draft = folder / "saved_step.draft"
            draft.write_text(str(step))
            draft.rename(folder / "saved_step")
            saved = step
        if step == self._steps:
            self.is_done.set()
        else:
            await self.goes_on("collecting", step + 1, saved)


async def _train(ajet: dict[str, Any]) -> None:
    steps = ajet["trainer_common"]["total_training_steps"]
    training = FakeTraining(Path(ajet["experiment_dir"]), steps)
    await training.listen(os.environ["AJET_SWARM_SOCKET"])
    while time.monotonic() - training.asked_at < _ORPHAN_S and not training.is_done.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(training.is_done.wait(), 1.0)
    print("[ajet] done", flush=True)


if __name__ == "__main__":
    asyncio.run(_train(yaml.load(Path(sys.argv[2]).read_text(), yaml.CSafeLoader)["ajet"]))
