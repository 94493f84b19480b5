"""A process of somebody else's that runs beside the training, and ends with it, however that ends."""

from __future__ import annotations

import json
import logging
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from trainer_core.types import TrainingError

_KEEPER = """
import json, os, shutil, signal, subprocess, sys, threading
grace, folders, command = float(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3:]
try: child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
except OSError as error: sys.exit(f"cannot start {command[0]}: {error.strerror}")
is_alone = threading.Event()
def end_with_input():
    while os.read(0, 4096): pass
    is_alone.set()
    child.terminate()
    try: child.wait(grace)
    except subprocess.TimeoutExpired: child.kill()
threading.Thread(target=end_with_input, daemon=True).start()
status = child.wait()
if is_alone.is_set():
    for folder in folders: shutil.rmtree(folder, ignore_errors=True)
print(f"\\n[ended with exit status {status}]", flush=True)
os.killpg(0, signal.SIGKILL)
"""
"""Leads the group of the process: when the trainer or the process is gone, so is all that it started."""
_log = logging.getLogger(__name__)

_LOOK_S = 0.2
_TOLD_LINES = 15
_TOLD_BYTES = 2**20
"""At most so much of what it printed last is looked at."""
_ANSWERS_IN_S = 5.0


class ChildProcess:
    """A process, started at once and ended by `close`."""

    def __init__(
        self,
        command: Sequence[str],
        name: str,
        log: Path,
        environment: Mapping[str, str] | None = None,
        *,
        grace_s: float = 10.0,
        leaves: Sequence[str] = (),
    ) -> None:
        """
        Args:
            name: what messages call it.
            log: the file that gets what it prints.
            environment: on top of the trainer's own.
            grace_s: from SIGTERM to SIGKILL.
            leaves: folders that go with it, also where the trainer is killed.
        """
        self.name = name
        # isolated: no module of the working directory stands for one of the standard library
        keeper = [sys.executable, "-I", "-c", _KEEPER]
        self._command = [*keeper, str(grace_s), json.dumps(list(leaves)), *command]
        self._environment = {**os.environ, **(environment or {})}
        self._log, self._grace_s, self._leaves = log, grace_s, leaves
        self._is_closed = threading.Event()
        self._keeping: threading.Thread | None = None
        log.parent.mkdir(parents=True, exist_ok=True)
        self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Of the leader of its process group."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_status(self) -> int | None:
        """Of the process that has ended by itself; None: it runs, or was killed with its keeper."""
        ended = re.search(r"^\[ended with exit status (-?\d+)\]\s*\Z", self.printed(), re.MULTILINE)
        return None if self.is_running or ended is None else int(ended[1])

    def wait_until(
        self,
        is_ready: Callable[[], bool],
        timeout_s: float,
        safe_point: Callable[[], None] = lambda: None,
    ) -> None:
        """Block until it is ready, or closed, or `safe_point` raises.

        Raises:
            TrainingError: it ended, or was not ready in time; its last lines are told.
        """
        deadline = time.monotonic() + timeout_s
        while not self._is_closed.is_set() and not is_ready():
            if not self.is_running:
                raise TrainingError(f"{self.name} ended at its start:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise TrainingError(f"{self.name} was not ready in {timeout_s:g} s:\n{self.tail()}")
            safe_point()
            time.sleep(_LOOK_S)

    def printed(self) -> str:
        """The last of it, since its last start."""
        with self._log.open("rb") as log:
            log.seek(max(self._told_from, log.seek(0, os.SEEK_END) - _TOLD_BYTES))
            return log.read().decode("utf-8", "replace")

    def tail(self) -> str:
        """The last lines that it printed."""
        lines = [line for line in self.printed().splitlines() if line.strip()]
        return "\n".join(f"    {line[:500]}" for line in lines[-_TOLD_LINES:]) or "    it printed nothing"

    def restart(self) -> None:
        """Start it again, after ending what is left of it."""
        self._end()
        self._start()

    def keep(
        self,
        restarts: int,
        *,
        long_life_s: float = math.inf,
        wait: Callable[[], None] = lambda: None,
        say: Callable[[str], None] = _log.warning,
    ) -> None:
        """From now on, start it again whenever it ends, in a thread.

        Args:
            restarts: so many times, and then its folders are removed.
            long_life_s: one that ran for longer has all its restarts again.
            wait: blocks until it is ready again; a TrainingError counts as one more end.
            say: gets a line when it ends, with the last that it printed.
        """

        def watch() -> None:
            left = restarts
            while not self._is_closed.wait(_LOOK_S):
                if self.is_running:
                    continue
                say(f"{self.name} ended; its last lines:\n{self.tail()}")
                if time.monotonic() - self._began > long_life_s:
                    left = restarts
                self._end()
                if not left:
                    return self._remove_leaves()
                left -= 1
                self._start()
                try:
                    wait()
                except TrainingError as error:
                    _log.warning("%s", error)
                    self._end()

        self._keeping = threading.Thread(target=watch, daemon=True)
        self._keeping.start()

    def close(self) -> None:
        """End it and all that it started, and remove its folders."""
        self._is_closed.set()
        if self._keeping is not None:
            self._keeping.join()
        self._end()
        self._remove_leaves()

    def _start(self) -> None:
        self._began = time.monotonic()
        with self._log.open("ab") as told:
            self._told_from = told.tell()
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=told,
                stderr=told,
                start_new_session=True,
            )

    def _end(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(self._grace_s + 1.0)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _remove_leaves(self) -> None:
        for folder in self._leaves:
            shutil.rmtree(folder, ignore_errors=True)


def answers(url: str, socket: str | None = None) -> bool:
    """True if a GET of this address, by a Unix socket where one is named, comes back with status 200."""
    import httpx

    try:
        transport = httpx.HTTPTransport(uds=socket, verify=url.startswith("https:"))
        with httpx.Client(transport=transport, timeout=_ANSWERS_IN_S, follow_redirects=True) as client:
            return client.get(url).status_code == httpx.codes.OK
    except (httpx.HTTPError, httpx.InvalidURL):
        return False
