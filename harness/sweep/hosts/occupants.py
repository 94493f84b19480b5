"""Who still uses a lease whose reserver is gone: its job, the run's newest training, or what either left."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from harness.sweep.folder import newest_attempt
from monitors.files import START_PATIENCE_S, AttemptFiles, SupervisorInfo, is_alive
from monitors.processes import boot_id, members_of_attempt, read_process


@dataclass(frozen=True)
class Process:
    """One process, distinguished from a later one of the same pid by when it started, and in which boot."""

    pid: int
    start_ticks: int | None
    boot_id: str

    @classmethod
    def of(cls, pid: int) -> Process:
        entry = read_process(pid)
        return cls(pid, entry.start_ticks if entry else None, boot_id())

    def lives(self) -> bool:
        return is_alive(SupervisorInfo("", self.pid, self.start_ticks, boot_id=self.boot_id))


class Occupants:
    """Finds who uses a lease. Remembers folders, since an attempt that never came up is known only after it
    was watched for a while."""

    def __init__(self) -> None:
        self._files: dict[Path, AttemptFiles] = {}

    def files(self, folder: Path) -> AttemptFiles:
        return self._files.setdefault(folder, AttemptFiles(folder))

    def use(self, job_folder: Path, result_dir: Path) -> bool:
        """True if the job in this folder, or the newest training of this run, still uses its lease."""
        newest = newest_attempt(result_dir)
        return self._is_used_by(job_folder) or (newest is not None and self._is_used_by(newest))

    def _is_used_by(self, folder: Path) -> bool:
        files = self.files(folder)
        state, info = files.state(), files.supervisor()
        is_starting = state == "not_started" and (files.started.exists() or _is_young(files.script))
        return state == "running" or is_starting or (info is not None and _has_leftovers(info))


def _has_leftovers(info: SupervisorInfo) -> bool:
    """True if an attempt that is over left a process behind; those that only showed and supervised it are
    about to end."""
    left = members_of_attempt(info.attempt_id) - {info.pid, info.front_pid}
    return any(Process.of(pid).lives() for pid in left)


def _is_young(script: Path) -> bool:
    """True if a launch script was written a moment ago: the line that runs it may just be being typed."""
    try:
        return abs(time.time() - script.stat().st_mtime) < START_PATIENCE_S
    except OSError:
        return False
