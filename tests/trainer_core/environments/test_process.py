"""A worker process: how it starts, is asked, dies, and is started again. The workers here are a few lines;
that of verifiers plays in `test_verifiers.py`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.trainer_core.processes import eventually, is_running
from trainer_core.environments.conversation import ServiceError, ServiceOutageError
from trainer_core.environments.verifiers import WorkerProcess, ask
from trainer_core.types import DataError

WORKER = """
import asyncio, json, os, sys
async def connected(reader, writer):
    asked = json.loads(await reader.readline())
    if asked["ask"] == "die":
        os._exit(9)
    if asked["ask"] == "wait":
        open(asked["path"], "w").write("waiting")
        await reader.read()
        open(asked["path"], "w").write("hung up")
        return
    answers = {"pid": json.dumps({"pid": os.getpid()}) + "\\n", "fail": '{"failed": "no"}\\n', "garbage": "{"}
    writer.write(answers[asked["ask"]].encode())
    await writer.drain()
    writer.close()
async def main():
    print("worker speaks", flush=True)
    async with await asyncio.start_unix_server(connected, sys.argv[1], backlog=4096) as server:
        await server.serve_forever()
asyncio.run(main())
"""


@contextmanager
def worker(folder: Path, code: str = WORKER, python: str = sys.executable) -> Iterator[WorkerProcess]:
    file = folder / "worker.py"
    file.write_text(code)
    with WorkerProcess([python, str(file)], [], "the worker", folder / "worker.log") as started:
        yield started


def test_it_answers_prints_to_its_log_and_ends_with_the_trainer(tmp_path: Path) -> None:
    with worker(tmp_path) as started:
        pid = started.first({"ask": "pid"}, 30)["pid"]
        assert asyncio.run(ask(started.socket, {"ask": "pid"})) == {"pid": pid}
        folder = Path(started.socket).parent
        assert folder.stat().st_mode & 0o077 == 0
        with pytest.raises(ServiceError, match="no"):
            asyncio.run(ask(started.socket, {"ask": "fail"}))
    assert not is_running(pid)
    assert not folder.exists()
    assert (tmp_path / "worker.log").read_text() == "worker speaks\n\n[ended with exit status -15]\n"


def test_hundreds_ask_at_once(tmp_path: Path) -> None:
    async def many(path: str) -> set[int]:
        replies = await asyncio.gather(*(ask(path, {"ask": "pid"}) for _ in range(500)))
        return {reply["pid"] for reply in replies}

    with worker(tmp_path) as started:
        pid = started.first({"ask": "pid"}, 30)["pid"]
        assert asyncio.run(many(started.socket)) == {pid}


def test_who_cancels_hangs_up(tmp_path: Path) -> None:
    seen = tmp_path / "seen"

    async def cancel(path: str) -> None:
        asking = asyncio.create_task(ask(path, {"ask": "wait", "path": str(seen)}))
        await asyncio.to_thread(eventually, seen.exists)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    with worker(tmp_path) as started:
        started.first({"ask": "pid"}, 30)
        asyncio.run(cancel(started.socket))
        eventually(lambda: seen.read_text() == "hung up")


def test_one_that_dies_is_started_again(tmp_path: Path) -> None:
    with worker(tmp_path) as started:
        first = started.first({"ask": "pid"}, 30)["pid"]
        with pytest.raises(ServiceOutageError, match="died"):
            asyncio.run(ask(started.socket, {"ask": "die"}))
        eventually(lambda: not is_running(first))
        second = asyncio.run(ask(started.socket, {"ask": "pid"}))["pid"]  # waits until it is there again
        os.kill(second, signal.SIGKILL)
        eventually(lambda: not is_running(second))
        third = asyncio.run(ask(started.socket, {"ask": "pid"}))["pid"]
        assert len({first, second, third}) == 3


def test_one_that_dies_for_ever_is_given_up(tmp_path: Path) -> None:
    once = f"import os, sys\nif os.path.exists({str(tmp_path / 'was')!r}): sys.exit('dead again')\n"
    code = f"{once}open({str(tmp_path / 'was')!r}, 'w')\n{WORKER}"
    with worker(tmp_path, code) as started:
        pid = started.first({"ask": "pid"}, 30)["pid"]
        with pytest.raises(ServiceOutageError, match="died"):
            asyncio.run(ask(started.socket, {"ask": "die"}))
        eventually(lambda: not is_running(pid))
        with pytest.raises(ServiceError, match="ended too often"):
            asyncio.run(ask(started.socket, {"ask": "pid"}))
    assert (tmp_path / "worker.log").read_text().count("dead again\n") == 5


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("raise SystemExit('no such environment')", "ended at its start:\n    no such environment"),
        (WORKER, "the worker: no answer"),
        (WORKER.replace("garbage", "is not").replace('"fail":', '"garbage":'), "the worker: no:"),
        ("import time; time.sleep(60)", "not ready in 0.5 s"),
        (None, "cannot start /nowhere/python: No such file"),
    ],
)
def test_a_start_that_fails_says_what_it_printed(tmp_path: Path, code: str | None, told: str) -> None:
    python = "/nowhere/python" if code is None else sys.executable
    with worker(tmp_path, code or "", python) as started, pytest.raises(DataError) as failed:
        started.first({"ask": "garbage"}, 0.5 if "0.5 s" in told else 30)
    assert told in str(failed.value)
