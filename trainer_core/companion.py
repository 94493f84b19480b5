"""A process of somebody else's that runs beside the training, and ends with it, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from trainer_core.types import TrainingError

_KEEPER = """
import os, signal, subprocess, sys, threading
child = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL)
def end_with_input():
    while os.read(0, 4096): pass
    child.terminate()
    try: child.wait(float(sys.argv[1]))
    except subprocess.TimeoutExpired: pass
    os.killpg(0, signal.SIGKILL)
threading.Thread(target=end_with_input, daemon=True).start()
status = child.wait()
print(f"[ended with exit status {status}]", flush=True)
os.killpg(0, signal.SIGKILL)
"""
"""Leads the group of the process: when the trainer or the process is gone, so is all that it started."""
_LOOK_S = 0.2
_TOLD_LINES = 15


class Companion:
    """A process, started at once and ended by `close`."""

    def __init__(
        self,
        command: Sequence[str],
        name: str,
        log: Path,
        environment: Mapping[str, str] | None = None,
        *,
        grace_s: float = 10.0,
    ) -> None:
        """
        Args:
            name: what messages call it.
            log: the file that gets what it prints.
            environment: on top of the trainer's own.
            grace_s: from SIGTERM to SIGKILL.
        """
        self.name = name
        self._log = log
        self._grace_s = grace_s
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as told:
            self._told_from = told.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-c", _KEEPER, str(grace_s), *command],
                env={**os.environ, **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=told,
                stderr=told,
                start_new_session=True,
            )

    def __enter__(self) -> Companion:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Of the leader of its process group."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_until(self, is_ready: Callable[[], bool], timeout_s: float) -> None:
        """Block until it is ready.

        Raises:
            TrainingError: it ended, or was not ready in time; its last lines are told.
        """
        deadline = time.monotonic() + timeout_s
        while not is_ready():
            if not self.is_running:
                raise TrainingError(f"{self.name} ended at its start:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise TrainingError(f"{self.name} was not ready in {timeout_s:g} s:\n{self.tail()}")
            time.sleep(_LOOK_S)

    def tail(self) -> str:
        """The last lines that it printed."""
        with self._log.open("rb") as log:
            log.seek(self._told_from)
            lines = log.read().decode("utf-8", "replace").strip().splitlines()
        return "\n".join(f"    {line[:500]}" for line in lines[-_TOLD_LINES:]) or "    it printed nothing"

    def close(self) -> None:
        """End it and all that it started."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(self._grace_s + 1.0)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
