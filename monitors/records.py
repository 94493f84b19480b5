"""The supervisor's files: its records, the terminal's log, and how files are never half written.

No temporary file is opened where something else lies: what a training puts there is not followed. Standard
library only.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from monitors.processes import boot_id, uptime

EVALUATION_LOG = "evaluation.log"
LOG_BACKLOG_BYTES = 4 << 20
LOG_TAIL_BYTES = 1 << 20
EXIT_RETRY_S = 600.0
EXIT_RESERVE_BYTES = 8192
WHY_LOST = {
    errno.ENOSPC: "disk full",
    errno.EDQUOT: "disk full",
    errno.EFBIG: "file size limit",
}


@dataclass(frozen=True)
class Exit:
    """How an attempt ended, as its supervisor recorded it.

    `reason`: exited | signalled | deadline | stopped | prepare_failed | could_not_start.
    `status`: exit status as a shell would give it (137 for SIGKILL), None if the command never ran.
    `signal`: the signal that ended it, if one did. Times are epoch seconds,
    `ended_uptime` is the end in seconds since the boot.
    `leftovers`: pids that outlived the command and were killed. `error`: what could not be started, and why.
    `log_lost_why`: disk full | file size limit | log limit | another error's own words.
    """

    attempt_id: str
    reason: str
    status: int | None = None
    signal: int | None = None
    started_at: float | None = None
    ended_at: float | None = None
    ended_uptime: float | None = None
    pid: int | None = None
    pgid: int | None = None
    prepare_status: int | None = None
    evaluate_status: int | None = None
    cleanup_status: int | None = None
    leftovers: tuple[int, ...] = ()
    host: str = ""
    boot_id: str = ""
    error: str | None = None
    log_lost_bytes: int = 0
    log_lost_why: str = ""


@dataclass(frozen=True)
class SupervisorInfo:
    """Who supervises an attempt. `start_ticks` and `boot_id` tell it from a later process of that pid.

    Times are epoch seconds, `…_uptime` the same moments in seconds since the boot.
    """

    attempt_id: str
    pid: int
    start_ticks: int | None = None
    host: str = ""
    boot_id: str = ""
    front_pid: int | None = None
    guardian_pid: int | None = None
    started_at: float | None = None
    command_pid: int | None = None
    pgid: int | None = None
    command_start_ticks: int | None = None
    command_started_at: float | None = None
    command_started_uptime: float | None = None
    deadline_uptime: float | None = None

    def running_s(self, now: float) -> float | None:
        """Seconds since the command started, None before. `now`, in epoch seconds, counts only where another
        boot supervises: on this one the uptime does, since a clock may be set."""
        if self.command_started_uptime is not None and self.boot_id == boot_id():
            return uptime() - self.command_started_uptime
        return None if self.command_started_at is None else now - self.command_started_at

    def left_s(self, deadline_at: float, now: float) -> float:
        """Seconds until the supervisor ends the attempt; `deadline_at` and `now` count as in `running_s`."""
        if self.deadline_uptime is not None and self.boot_id == boot_id():
            return self.deadline_uptime - uptime()
        return deadline_at - now


@dataclass(frozen=True)
class Heartbeat:
    """The supervisor's last sign of life. `state`: prepare | command | evaluate |
    cleanup. `time`: epoch seconds.

    `group`: the folder of the attempt's control group; "" where there is none, and then `family`: pid and
    start of each of its processes when last looked at.
    """

    time: float
    pid: int
    state: str
    command_pid: int | None = None
    log_bytes: int = 0
    log_lost_bytes: int = 0
    log_lost_why: str = ""
    boot_id: str = ""
    group: str = ""
    family: tuple[tuple[int, int], ...] = ()


def create_private(path: Path, mode: int = 0o600) -> int:
    """Open a new file for writing in the place of what lies there, which is neither followed nor changed;
    nobody else can read it at any moment."""
    put_folder_aside(path)
    path.unlink(missing_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)


def put_folder_aside(path: Path) -> None:
    """Give another name to a folder that lies where a file is to be."""
    if path.is_dir() and not path.is_symlink():
        path.rename(path.with_name(f"{path.name}.{os.urandom(4).hex()}"))


def scratch_of(path: Path) -> Path:
    """Where a file is written before it takes its place."""
    return path.with_name(path.name + ".tmp")


def write_atomically(path: Path, content: Mapping[str, object] | str, mode: int = 0o600) -> None:
    """Replace `path` by text (which may hold any bytes, escaped), or by a record as JSON; a reader sees the
    old or the new file, never half of one."""
    data = os.fsencode(content if isinstance(content, str) else json.dumps(content))
    scratch = scratch_of(path)
    try:
        with os.fdopen(create_private(scratch, mode), "wb") as file:
            file.write(data)
        scratch.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            scratch.unlink()
        raise


def overwrite(path: Path, record: Mapping[str, object]) -> None:
    """Write a small record over the one in a file, which costs a tenth of replacing it; one that is missing
    is made."""
    data = json.dumps(record).encode()
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        write_atomically(path, record)
        return
    try:
        os.pwrite(fd, data.ljust(os.fstat(fd).st_size), 0)
    finally:
        os.close(fd)


def folder_is_removed() -> bool:
    """Say whether our working directory was deleted; one that was moved, or is on a disk that was unmounted
    and still takes what we write, is not."""
    try:
        return os.stat(".").st_nlink == 0  # noqa: PTH116
    except OSError:
        return False


class PaneLog:
    """The log of the training's terminal; it never stops the training. What the disk refuses waits in memory,
    up to LOG_BACKLOG_BYTES. What is more, or exceeds `limit`, is lost and counted, but for its last
    LOG_TAIL_BYTES: they follow, after a line that says so, when there is room again, or in `finish`."""

    def __init__(self, path: Path, limit: float) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._limit = limit
        self._is_full = False
        self._waiting = bytearray()
        self._tail = bytearray()
        self._skipped = 0
        self._dropped = 0
        self.written = 0
        self.why = ""

    @property
    def lost(self) -> int:
        """Bytes that are not in the log: dropped for good, or waiting for room on the disk."""
        return self._dropped + len(self._waiting) + len(self._tail)

    @property
    def why_lost(self) -> str:
        return self.why if self.lost else ""

    def write(self, data: bytes) -> None:
        if self._tail:
            self._hold_back(data)
            self.flush()
            return
        self._waiting += data
        self.flush()
        if len(self._waiting) > LOG_BACKLOG_BYTES:
            self._hold_back_from(_line_end(self._waiting, LOG_BACKLOG_BYTES))

    def flush(self) -> bool:
        """Write what waits, as far as the disk takes it; say whether it took all."""
        while self._waiting or (self._tail and not self._is_full):
            if not self._waiting:
                self._waiting += self._after_the_gap()
            room = self._room()
            if room == 0:
                self._hold_back_from(0)
                return False
            try:
                count = os.write(self._fd, self._waiting[: min(room, 1 << 16)])
            except OSError as error:
                self.why = WHY_LOST.get(error.errno or 0, os.strerror(error.errno or 0))
                return False
            self.written += count
            del self._waiting[:count]
        return not self._tail

    def finish(self) -> None:
        """Let the end of the log in, however long it is."""
        self._limit, self._is_full = math.inf, False

    def _room(self) -> int:
        """How much of what waits the limit lets in: the last line is whole."""
        room = self._limit - self.written
        if len(self._waiting) <= room:
            return len(self._waiting)
        if not self._is_full:
            self._is_full, self.why = True, "log limit"
            self._limit = self.written + _line_end(self._waiting, int(room))
        return int(self._limit) - self.written

    def _hold_back_from(self, start: int) -> None:
        self._hold_back(self._waiting[start:])
        del self._waiting[start:]

    def _hold_back(self, data: bytes | bytearray) -> None:
        """Put this at the end of the tail, and drop what is then too old for it."""
        self._tail += data
        if len(self._tail) > 2 * LOG_TAIL_BYTES:
            old = _line_end(self._tail, len(self._tail) - LOG_TAIL_BYTES)
            del self._tail[:old]
            self._skipped += old
            self._dropped += old

    def _after_the_gap(self) -> bytes:
        gap = f"\r\n[{self._skipped} bytes of the log are missing here: {self.why}]\r\n"
        tail = (gap.encode() if self._skipped else b"") + self._tail
        self._skipped = 0
        self._tail.clear()
        return tail


def _line_end(data: bytearray, near: int) -> int:
    """Where a line ends in `data`: behind this place if one does, or else before it."""
    return data.find(b"\n", max(0, near - 1)) + 1 or data.rfind(b"\n", 0, near) + 1 or near


@dataclass(frozen=True)
class PhaseEnd:
    """How one of the commands ended. `cause`: None (by itself), deadline, stopped or timeout."""

    wait_status: int | None = None
    cause: str | None = None
    error: str | None = None

    @property
    def is_good(self) -> bool:
        return self.status == 0 and not self.cause

    @property
    def status(self) -> int | None:
        """The exit status as a shell would give it (128 + n for signal n)."""
        if self.wait_status is None:
            return None
        code = os.waitstatus_to_exitcode(self.wait_status)
        return 128 - code if code < 0 else code

    @property
    def signal(self) -> int | None:
        """The signal that ended the process, if one did."""
        if self.wait_status is None or not os.WIFSIGNALED(self.wait_status):
            return None
        return os.WTERMSIG(self.wait_status)


class ExitRecord:
    """`exit.json`, its space on disk reserved from the start, so that a full disk cannot hide the ending."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        with contextlib.suppress(OSError, AttributeError):  # macOS cannot reserve
            self._fd = create_private(scratch_of(path))
            os.posix_fallocate(self._fd, 0, EXIT_RESERVE_BYTES)

    def write(self, record: Mapping[str, object]) -> None:
        """Write, sync, rename; tried again while the disk refuses, for at most ten minutes, and not at all
        where the folder is no more."""
        data = json.dumps(record).encode()
        give_up = time.monotonic() + EXIT_RETRY_S
        while not folder_is_removed():
            try:
                if self._fd is None or not self._is_in_place(self._fd):
                    self._fd = create_private(scratch_of(self._path))
                os.pwrite(self._fd, data, 0)
                os.ftruncate(self._fd, len(data))
                os.fsync(self._fd)
                put_folder_aside(self._path)
                scratch_of(self._path).replace(self._path)
                return
            except OSError:
                if time.monotonic() > give_up:
                    raise
                time.sleep(1.0)

    def _is_in_place(self, fd: int) -> bool:
        """Say whether the file reserved is still there, and the training put nothing in its place."""
        with contextlib.suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(fd), scratch_of(self._path).lstat())
        return False
