"""An attempt's folder: where its files are, and what they say about whether it runs, ended or was lost.

The supervisor and the trainer write these files; this module only reads them. Every reader tolerates a file
that is missing or half written by returning None.
"""

import contextlib
import errno
import json
import os
import socket
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, TypeVar

from monitors.processes import boot_id, read_process, uptime
from monitors.records import EVALUATION_LOG
from monitors.records import Exit as Exit
from monitors.records import Heartbeat as Heartbeat
from monitors.records import SupervisorInfo as SupervisorInfo

State = Literal["not_started", "running", "ended", "lost"]
START_PATIENCE_S = 60.0
LEAST_WATCHED_S = 10.0


Record = TypeVar("Record", Exit, SupervisorInfo, Heartbeat)


class AttemptFiles:
    """The files of one attempt (`<result_dir>/attempts/NN/`) and their readers."""

    def __init__(
        self,
        directory: Path,
        clock: Callable[[], float] = time.time,
        since_boot: Callable[[], float] = uptime,
        known: SupervisorInfo | None = None,
        given_up: bool = False,
    ) -> None:
        """`known`: who supervises it; like what was read once, it counts where that cannot be read.
        `given_up`: the files are gone for good, and so is a supervisor that was never known."""
        self.dir = Path(directory).absolute()
        self._known, self._given_up = known, given_up
        self._clock = clock
        self._since_boot = since_boot
        self._starting_since: float | None = None
        self.config = self.dir / "config.yaml"
        self.script = self.dir / "launch.sh"
        self.started = self.dir / "started"
        self.supervisor_file = self.started / "supervisor.json"
        self.pane_log = self.dir / "pane.log"
        self.heartbeat_file = self.dir / "heartbeat"
        self.exit_file = self.dir / "exit.json"
        self.metrics = self.dir / "metrics.jsonl"
        self.evaluation_log = self.dir / EVALUATION_LOG
        self.evaluation = self.dir / "evaluation.jsonl"
        self.resources = self.dir / "resources.jsonl"
        self.diagnosis = self.dir / "diagnosis.json"
        self.trainer = self.dir / "trainer"
        self.trainer_metrics = self.trainer / "metrics.jsonl"

    def exit(self) -> Exit | None:
        """Return how the attempt ended, or None while that is not known. While its supervisor lives, which
        writes the record last of all, what lies there is of somebody else."""
        found = _read(self.exit_file, Exit)
        info = self.supervisor() if found is not None else None
        return None if info is not None and is_alive(info) else found

    def supervisor(self) -> SupervisorInfo | None:
        """Return who supervises the attempt, or None before it has started."""
        self._known = _read(self.supervisor_file, SupervisorInfo) or self._known
        return self._known

    def heartbeat(self) -> Heartbeat | None:
        """Return the supervisor's last sign of life."""
        return _read(self.heartbeat_file, Heartbeat)

    def evaluates(self) -> bool:
        """Say whether the training is over and what measures its result runs."""
        beat = self.heartbeat()
        return beat is not None and beat.state == "evaluate"

    def check_readable(self) -> None:
        """Raise OSError unless the attempt's folder can be read: only then what is not in it is not there."""
        own = {path.name for path in (self.script, self.started, self.pane_log, self.exit_file)}
        if own.isdisjoint(os.listdir(self.dir)):  # noqa: PTH208  the folder of a disk that is not mounted
            raise FileNotFoundError(errno.ENOENT, "the attempt's files are gone", str(self.dir))
        with contextlib.suppress(FileNotFoundError):
            self.exit_file.read_bytes()

    def alive(self) -> bool:
        """Say whether this attempt's supervisor runs; a recycled pid is never mistaken for it."""
        info = self.supervisor()
        return info is not None and is_alive(info)

    def state(self) -> State:
        """Say where the attempt stands: `lost` means its supervisor died without recording an exit."""
        if self.exit():
            return "ended"
        info = self.supervisor()
        if info is None:
            return "lost" if self._given_up or self._never_came_up() else "not_started"
        if is_alive(info) or self._beats_elsewhere(info):
            return "running"
        return "ended" if self.exit() else "lost"  # it may have written it between our two looks

    def _beats_elsewhere(self, info: SupervisorInfo) -> bool:
        """Say whether another machine supervises the attempt in a shared folder: its heart still beats."""
        beat = self.heartbeat()
        if beat is None or info.host == socket.gethostname():  # containers of one machine share its boot
            return False
        return abs(self._clock() - beat.time) < START_PATIENCE_S

    def _never_came_up(self) -> bool:
        """Say whether the launch script began long ago and was killed before there was a supervisor. A clock
        that was set, or a file server's that differs, can make a young folder look old: it is watched too."""
        try:
            age = self._clock() - self.started.stat().st_mtime
        except OSError:
            return False
        if self._starting_since is None:
            self._starting_since = self._since_boot()
        watched_s = self._since_boot() - self._starting_since
        return age > START_PATIENCE_S and watched_s > LEAST_WATCHED_S and not self.exit_file.exists()


def is_alive(info: SupervisorInfo) -> bool:
    """Say whether the process described is the one that runs under that pid now, and not a zombie."""
    entry = read_process(info.pid)
    if entry is None:
        return info.start_ticks is None and _answers(info.pid)
    same_boot = info.boot_id == boot_id()
    return same_boot and entry.start_ticks == info.start_ticks and entry.state not in "ZX"


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _read(path: Path, kind: type[Record]) -> Record | None:
    try:
        raw: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(raw, dict):
        return None
    known = {field.name for field in fields(kind)}
    values = {
        key: tuple(value) if isinstance(value, list) else value for key, value in raw.items() if key in known
    }
    build: Callable[..., Record] = kind
    try:
        return build(**values)
    except TypeError:
        return None
