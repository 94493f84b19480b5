"""Who still uses a lease whose reserver is gone: its job, the run's newest training, or what either left.

In: the two folders of a lease. Out: an `Occupant`, None when there is none any more.
"""

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


@dataclass(frozen=True)
class Occupant:
    """Somebody who uses a lease. `pid`: the process whose end is worth a look, None where there is none
    to wait for (it is only just starting, or runs on another machine)."""

    what: str
    pid: int | None = None


class Occupants:
    """Finds occupants. Remembers folders, since an attempt that never came up is known only after it was
    watched for a while, and leftovers, since it takes a look at all processes to find them."""

    def __init__(self) -> None:
        self._files: dict[Path, AttemptFiles] = {}
        self._leftovers: dict[str, Process] = {}

    def files(self, folder: Path) -> AttemptFiles:
        return self._files.setdefault(folder, AttemptFiles(folder))

    def forget(self, job_folder: Path, result_dir: Path) -> None:
        """A lease is no more: nothing needs to be remembered of it."""
        attempts = result_dir / "attempts"
        for folder in [
            known for known in list(self._files) if known == job_folder or attempts in known.parents
        ]:
            files = self._files.pop(folder, None)
            info = files.supervisor() if files is not None else None
            if info is not None:
                self._leftovers.pop(info.attempt_id, None)

    def of(self, job_folder: Path, result_dir: Path) -> Occupant | None:
        """Who uses the lease with these folders."""
        newest = newest_attempt(result_dir)
        return self._in(job_folder, "its job") or (
            self._in(newest, f"attempt {newest.name}") if newest is not None else None
        )

    def _in(self, folder: Path, what: str) -> Occupant | None:
        files = self.files(folder)
        state, info = files.state(), files.supervisor()
        if state == "running":
            here = info is not None and is_alive(info)
            return Occupant(f"{what} runs", info.pid if info is not None and here else None)
        if state == "not_started" and (files.started.exists() or _is_young(files.script)):
            return Occupant(f"{what} is starting")
        left = self._leftover(info) if info is not None else None
        return Occupant(f"{what} left process {left.pid} behind", left.pid) if left is not None else None

    def _leftover(self, info: SupervisorInfo) -> Process | None:
        """A process of an attempt that is over; not those that only showed and supervised it and are about to
        end."""
        known = self._leftovers.get(info.attempt_id)
        if known is not None and known.lives():
            return known
        for pid in sorted(members_of_attempt(info.attempt_id) - {info.pid, info.front_pid}):
            found = Process.of(pid)
            if found.lives():
                self._leftovers[info.attempt_id] = found
                return found
        return None


def _is_young(script: Path) -> bool:
    """True if a launch script was written a moment ago: the line that runs it may just be being typed."""
    try:
        return abs(time.time() - script.stat().st_mtime) < START_PATIENCE_S
    except OSError:
        return False
