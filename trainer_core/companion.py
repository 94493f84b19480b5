"""A process of somebody else's that runs beside the training, and ends with it, however that ends."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING
from urllib.request import ProxyHandler, build_opener

from trainer_core.types import TrainingError

if TYPE_CHECKING:
    from trainer_core.config import services as config

_KEEPER = """
import os, shutil, signal, subprocess, sys, threading
grace, folders, command = float(sys.argv[1]), sys.argv[2].split(os.pathsep), sys.argv[3:]
child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
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
    for folder in filter(None, folders): shutil.rmtree(folder, ignore_errors=True)
print(f"[ended with exit status {status}]", flush=True)
os.killpg(0, signal.SIGKILL)
"""
"""Leads the group of the process: when the trainer or the process is gone, so is all that it started."""
_log = logging.getLogger(__name__)

_LOOK_S = 0.2
_TOLD_LINES = 15
_TOLD_BYTES = 2**20
"""At most so much of what it printed last is looked at."""
_ANSWERS_IN_S = 5.0


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
        leaves: Sequence[str] = (),
    ) -> None:
        """
        Args:
            name: what messages call it.
            log: the file that gets what it prints.
            environment: on top of the trainer's own.
            grace_s: from SIGTERM to SIGKILL.
            leaves: folders that go with the trainer, also where that is killed.
        """
        self.name = name
        self._log = log
        self._grace_s = grace_s
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as told:
            self._told_from = told.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-c", _KEEPER, str(grace_s), os.pathsep.join(leaves), *command],
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
        """Block until it is ready, or `safe_point` raises.

        Raises:
            TrainingError: it ended, or was not ready in time; its last lines are told.
        """
        deadline = time.monotonic() + timeout_s
        while not is_ready():
            if not self.is_running:
                raise TrainingError(f"{self.name} ended at its start:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise TrainingError(f"{self.name} was not ready in {timeout_s:g} s:\n{self.tail()}")
            safe_point()
            time.sleep(_LOOK_S)

    def printed(self) -> str:
        """The last of it."""
        with self._log.open("rb") as log:
            log.seek(max(self._told_from, log.seek(0, os.SEEK_END) - _TOLD_BYTES))
            return log.read().decode("utf-8", "replace")

    def tail(self) -> str:
        """The last lines that it printed."""
        lines = self.printed().strip().splitlines()
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


class Companions:
    """The programs that a config names, from `__enter__` to `__exit__`; one that ends is started again."""

    def __init__(
        self,
        programs: Sequence[config.Companion],
        folder: Path,
        say: Callable[[str], None] = lambda _: None,
        safe_point: Callable[[], None] = lambda: None,
    ) -> None:
        """`folder`: gets what they print, in `companions/`."""
        self._programs, self._say, self._safe_point = programs, say, safe_point
        self._folder = folder / "companions"
        self._keepers: list[threading.Thread] = []
        self._is_over = threading.Event()

    def __enter__(self) -> Companions:
        """Start each when the one before is ready.

        Raises:
            TrainingError: one cannot be started.
        """
        try:
            for number, program in enumerate(self._programs):
                one = self._start(program, number, self._safe_point)
                self._keepers.append(threading.Thread(target=self._keep, args=(program, number, one)))
                self._keepers[-1].start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End them."""
        self._is_over.set()
        for keeper in self._keepers:
            keeper.join()

    def _start(
        self, program: config.Companion, number: int, safe_point: Callable[[], None] = lambda: None
    ) -> Companion:
        key, words = f"ajet.companions[{number}]", program.command.split()
        try:
            ready = re.compile(program.ready_pattern or "")
        except re.error as error:
            raise TrainingError(f"{key}.ready_pattern: {error}") from None
        if not words:
            raise TrainingError(f"{key}.command is empty")
        program_name = Path(words[0]).name
        self._say(f"{key} ({program_name}) starts")
        log = self._folder / f"{number}-{program_name}.log"
        one = Companion(["sh", "-c", program.command], f"{key} ({program_name})", log)

        def is_ready() -> bool:
            has_said = one.is_running and ready.search(one.printed()) is not None
            return self._is_over.is_set() or (has_said and _is_healthy(program.health_url))

        try:
            one.wait_until(is_ready, program.starts_in_s, safe_point)
        except BaseException:
            one.close()
            raise
        return one

    def _keep(self, program: config.Companion, number: int, one: Companion) -> None:
        """Start it again when it ends, as often as it may; end it when all is over."""
        left = program.max_restarts
        while not self._is_over.wait(_LOOK_S):
            if one.is_running:
                continue
            one.close()
            self._say(f"warning: {one.name} ended; its last lines:\n{one.tail()}")
            if not left:
                return
            left -= 1
            try:
                one = self._start(program, number)
            except TrainingError as error:  # it counts as one more that ended
                _log.warning("%s", error)
        one.close()


def _is_healthy(url: str | None) -> bool:
    if url is None:
        return True
    try:
        with build_opener(ProxyHandler({})).open(url, timeout=_ANSWERS_IN_S) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except (OSError, ValueError, HTTPException):
        return False
