"""A worker process that plays episodes for the trainer, and how to ask it.

A request is one connection to the worker's Unix socket, a JSON line each way, so that any thread, event loop
or process may ask; who hangs up cancels. A worker that dies is started again, and the rollout tries again
what it was playing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from trainer_core.environments.conversation import ServiceError, ServiceOutageError
from trainer_core.types import DataError

_log = logging.getLogger(__name__)

_LONGEST_LINE = 2**26
_MOST_SHORT_LIVES = 5
_SHORT_LIFE_S = 60.0
_GRACE_S = 10.0
_RESTARTS_IN_S = 120.0
_LOOK_S = 0.2


class WorkerProcess:
    """A worker, started at once and kept running until `close`."""

    def __init__(self, command: Sequence[str], arguments: Sequence[str], name: str, log: Path) -> None:
        """`command`: starts it, with its own folder first on PATH; the path of its socket and `arguments`
        come after it. `log`: the file that gets what it prints.

        Raises:
            DataError: it cannot be started.
        """
        self._name = name
        self._log = log
        self._folder = tempfile.mkdtemp(prefix="ajet-")
        self.socket = str(Path(self._folder, "socket"))
        """Where it listens."""
        self._command = [*command, self.socket, *arguments]
        beside = [str(Path(command[0]).parent)] if "/" in command[0] else []
        self._environment = {**os.environ, "PATH": os.pathsep.join([*beside, os.environ.get("PATH", "")])}
        self._is_closed = False
        try:
            self._process = self._start()
        except OSError as error:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise DataError(f"{name}: cannot start {command[0]}: {error.strerror}") from None
        self._watching = threading.Thread(target=self._watch, daemon=True, name=name)
        self._watching.start()

    @property
    def pid(self) -> int:
        """Of the worker that runs now, and of its process group."""
        return self._process.pid

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let it end, and end it and all it started after ten seconds."""
        self._is_closed = True
        process = self._process
        if process.stdin is not None:
            process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        self._watching.join()
        shutil.rmtree(self._folder, ignore_errors=True)

    def first(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """The answer to a request, once the worker listens.

        Raises:
            DataError: it ended or failed, or took too long.
        """
        deadline = time.monotonic() + timeout_s
        process = self._process
        while True:
            try:
                with socket.socket(socket.AF_UNIX) as asked:
                    asked.settimeout(max(0.1, deadline - time.monotonic()))
                    asked.connect(self.socket)
                    asked.sendall(json.dumps(request).encode() + b"\n")
                    with asked.makefile("rb") as answer:
                        reply: dict[str, Any] = json.loads(answer.readline() or "null")
                break
            except (FileNotFoundError, ConnectionRefusedError):
                if process.poll() is not None:
                    raise DataError(f"{self._name}: it ended at its start:\n{self._tail()}") from None
                if time.monotonic() > deadline:
                    raise DataError(f"{self._name}: not ready in {timeout_s:g} s, see {self._log}") from None
                time.sleep(0.05)
            except (OSError, ValueError) as error:
                raise DataError(f"{self._name}: no answer ({error}):\n{self._tail()}") from None
        if not reply or "failed" in reply:
            raise DataError(f"{self._name}: {reply['failed'] if reply else self._tail()}")
        return reply

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _watch(self) -> None:
        """Start it again when it dies on its way, unless it lives too short too often."""
        short_lives = 0
        while short_lives <= _MOST_SHORT_LIVES:
            began = time.monotonic()
            status = self._process.wait()
            if self._is_closed or not Path(self.socket).exists():
                return
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            Path(self.socket).unlink(missing_ok=True)
            short_lives = short_lives + 1 if time.monotonic() - began < _SHORT_LIFE_S else 0
            _log.warning("%s ended with exit status %s; see %s", self._name, status, self._log)
            if short_lives <= _MOST_SHORT_LIVES:
                self._process = self._start()
        shutil.rmtree(self._folder, ignore_errors=True)  # so that nobody waits for it

    def _tail(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return "\n".join(f"    {line}" for line in lines[-8:]) or "    it printed nothing"


async def _connected(path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection, once a worker that is being started again listens."""
    for _ in range(int(_RESTARTS_IN_S / _LOOK_S)):
        with suppress(FileNotFoundError, ConnectionRefusedError):
            return await asyncio.open_unix_connection(path, limit=_LONGEST_LINE)
        if not Path(path).parent.exists():
            raise ServiceError("the environment's process has ended too often")
        await asyncio.sleep(_LOOK_S)
    raise ServiceOutageError(f"the environment's process was not there again in {_RESTARTS_IN_S:g} s")


async def ask(path: str, request: dict[str, Any]) -> dict[str, Any]:
    """The answer of the worker that listens at `path`; to cancel this is to cancel the request.

    Raises:
        ServiceOutageError: there is no worker, or it died over it.
        ServiceError: it says that it failed.
    """
    reader, writer = await _connected(path)
    try:
        writer.write(json.dumps(request).encode() + b"\n")
        line = await reader.readline()
    except OSError as error:
        raise ServiceOutageError(f"the environment's process does not answer: {error}") from error
    finally:
        writer.close()
    if not line:
        raise ServiceOutageError("the environment's process died")
    reply: dict[str, Any] = json.loads(line)
    if "failed" in reply:
        raise ServiceError(reply["failed"])
    return reply
