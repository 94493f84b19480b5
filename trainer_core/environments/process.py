"""A worker process that plays episodes for the trainer, and how to ask it.

A request is one connection to the worker's Unix socket, a JSON line each way, so that any thread, event loop
or process may ask; who hangs up cancels. A worker that dies is started again, and the rollout tries again
what it was playing.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from trainer_core.child_process import ChildProcess
from trainer_core.environments.conversation import ServiceError, ServiceOutageError
from trainer_core.types import DataError, TrainingError

_LONGEST_LINE = 2**31
_MOST_RESTARTS = 5
_LONG_LIFE_S = 60.0
_RESTARTS_IN_S = 120.0
_LOOK_S = 0.2


class WorkerProcess(ChildProcess):
    """A worker, started at once, and from its first answer on kept running until `close`."""

    def __init__(self, command: Sequence[str], arguments: Sequence[str], name: str, log: Path) -> None:
        """`command`: starts it, with its own folder first on PATH; the path of its socket and `arguments`
        come after it. `log`: the file that gets what it prints."""
        folder = tempfile.mkdtemp(prefix="ajet-")
        self.socket = str(Path(folder, "socket"))
        """Where it listens."""
        beside = [str(Path(command[0]).parent)] if "/" in command[0] else []
        path = os.pathsep.join([*beside, os.environ.get("PATH", "")])
        super().__init__([*command, self.socket, *arguments], name, log, {"PATH": path}, leaves=[folder])

    def first(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """The answer to its first request, once it listens.

        Raises:
            DataError: it ended or failed, or took too long.
        """
        try:
            self.wait_until(Path(self.socket).exists, timeout_s)
            reply = asyncio.run(asyncio.wait_for(ask(self.socket, request), timeout_s))
        except (ServiceError, TimeoutError) as error:
            raise DataError(f"{self.name}: {error or 'no answer'}:\n{self.tail()}") from None
        except TrainingError as error:
            raise DataError(str(error)) from None
        self.keep(_MOST_RESTARTS, long_life_s=_LONG_LIFE_S)
        return reply


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
        ServiceError: it says that it failed, or what it says is no answer.
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
    try:
        reply: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise ServiceError(f"no answer ({error})") from None
    if "failed" in reply:
        raise ServiceError(reply["failed"])
    return reply
