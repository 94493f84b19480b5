"""The supervisor's files: the terminal's log, the exit record, and JSON files that are never half written.

Standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LOG_BACKLOG_BYTES = 4 << 20
EXIT_RETRY_S = 600.0
EXIT_RESERVE_BYTES = 8192


def write_atomically(path: Path, record: Mapping[str, object]) -> None:
    """Replace `path` by `record` as JSON; a reader sees the old or the new file, never half of one."""
    scratch = path.with_name(path.name + ".tmp")
    try:
        scratch.write_text(json.dumps(record), encoding="utf-8")
        scratch.replace(path)
    except OSError:
        scratch.unlink(missing_ok=True)
        raise


class PaneLog:
    """The log of the training's terminal. A full disk loses bytes (counted), never the training: up to
    LOG_BACKLOG_BYTES wait in memory for room."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._waiting = bytearray()
        self._dropped = 0
        self.written = 0

    @property
    def lost(self) -> int:
        """Bytes that are not in the log: dropped for good, or waiting for room on the disk."""
        return self._dropped + len(self._waiting)

    def write(self, data: bytes) -> None:
        room = LOG_BACKLOG_BYTES - len(self._waiting)
        self._waiting += data[:room]
        self._dropped += len(data[room:])
        self.flush()

    def flush(self) -> bool:
        """Write what waits, as far as the disk takes it; say whether it took all."""
        while self._waiting:
            try:
                count = os.write(self._fd, self._waiting)
            except OSError:
                return False
            self.written += count
            del self._waiting[:count]
        return True


@dataclass(frozen=True)
class PhaseEnd:
    """How prepare, command or cleanup ended. `cause`: None (by itself), deadline, stopped or timeout."""

    wait_status: int | None = None
    cause: str | None = None
    error: str | None = None

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
        self._scratch = path.with_name(path.name + ".tmp")
        self._fd: int | None = None
        with contextlib.suppress(OSError, AttributeError):  # macOS cannot reserve
            self._fd = self._open()
            os.posix_fallocate(self._fd, 0, EXIT_RESERVE_BYTES)

    def _open(self) -> int:
        return os.open(self._scratch, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, record: Mapping[str, object]) -> None:
        """Write, sync, rename; tried again while the disk refuses, for at most ten minutes."""
        data = json.dumps(record).encode()
        give_up = time.monotonic() + EXIT_RETRY_S
        while True:
            try:
                if self._fd is None:
                    self._fd = self._open()
                os.pwrite(self._fd, data, 0)
                os.ftruncate(self._fd, len(data))
                os.fsync(self._fd)
                self._scratch.replace(self._path)
                return
            except OSError as error:
                if error.errno == errno.ENOENT or time.monotonic() > give_up:
                    raise
                time.sleep(1.0)
