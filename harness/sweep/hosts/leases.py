"""The leases of this machine: who may use which part of it, one small file each.

In: requests of any number of processes. Out: `Record`s. Every change happens under a lock on one file; in it
stands how often a part became free, so that whoever waits for room watches that file. A lease is held until
it is given back, or until nothing is left that uses it: the process that reserved it, its job, the
run's newest training, or anything these left behind. Nothing has to survive a reboot, since nothing that
holds a lease does; so nothing is flushed to the disk.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import re
import socket
import time
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.codec import decode, encode
from harness.machine import memory
from harness.machine.disk import in_words
from harness.machine.gpus import Device
from harness.machine.ports import is_free
from harness.sweep.hosts import HostError, Lease, Needs, NeverFitsError
from harness.sweep.plan import newest_attempt
from monitors.files import START_PATIENCE_S, AttemptFiles, SupervisorInfo, is_alive
from monitors.launch import leftovers, state_home
from monitors.processes import boot_id, read_process
from monitors.records import write_atomically

LOCK = "ledger.lock"
ROUNDING = 1e-6
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Capacity:
    """What the processes started on a machine may use in all. `cores`: not whole under a quota."""

    cores: float
    memory_bytes: int

    @classmethod
    def here(cls) -> Capacity:
        return cls(memory.cores(), memory.memory_total())

    def shared(self, needs: Needs) -> Needs:
        """The needs with every part that is not said set to an equal share of this."""
        cpus, size = needs.cpus, needs.memory_bytes
        return replace(
            needs,
            cpus=self.cores / needs.sharers if cpus is None else cpus,
            memory_bytes=self.memory_bytes // needs.sharers if size is None else size,
        )


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
class Record:
    """One lease and what keeps it. `uuids`: its GPUs, whatever they are called. `reserver`: who asked for it;
    None where it was given back while its training still ran."""

    lease: Lease
    job_folder: Path
    result_dir: Path
    reserver: Process | None
    uuids: tuple[str, ...] = ()


class LeaseBook:
    """All leases of the machine, while the lock is held. `freed`: how often a part became free, ever."""

    def __init__(self, folder: Path, freed: int) -> None:
        self.folder, self.freed, self.records = folder, freed, dict[str, Record]()
        for path in sorted(folder.glob("*.json")):
            try:
                self.records[path.stem] = decode(Record, json.loads(path.read_text(encoding="utf-8")))
            except ValueError as error:  # a power cut: all that ran then is gone too
                _log.warning("%s cannot be read (%s) and is removed; it held nothing", path, error)
                path.unlink(missing_ok=True)

    def put(self, record: Record) -> None:
        write_atomically(self.folder / f"{record.lease.id}.json", encode(record))
        self.records[record.lease.id] = record

    def remove(self, lease_id: str) -> None:
        (self.folder / f"{lease_id}.json").unlink(missing_ok=True)
        del self.records[lease_id]
        self.freed += 1

    def hand_over(self, lease_id: str, job_folder: Path, result_dir: Path, to: Process) -> Lease | None:
        """Give what is held under this id, or for a training of the same run that outlived its lease, to
        another reserver: unchanged but for its id, and free at no moment. None where nothing is held."""
        left = (r for r in self.records.values() if r.reserver is None and r.result_dir == result_dir)
        held = self.records.get(lease_id) or next(left, None)
        if held is None:
            return None
        lease = replace(held.lease, id=lease_id)
        self.put(replace(held, lease=lease, job_folder=job_folder, reserver=to))
        if held.lease.id != lease_id:
            self.remove(held.lease.id)
        return lease


class Ledger:
    """The leases of one machine and one user: `$XDG_STATE_HOME/harness/leases/<host name>/`, since several
    machines may share a home."""

    def __init__(self, folder: Path | None = None) -> None:
        host = re.sub(r"[^A-Za-z0-9._-]", "_", socket.gethostname()) or "localhost"
        self.folder = folder or state_home() / "leases" / host
        self.lock_file = self.folder / LOCK

    @contextlib.contextmanager
    def open(self) -> Iterator[LeaseBook]:
        """The book, for as long as no other process may write in it. Keep it short: others wait. Raises
        HostError when the folder cannot be written."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with os.fdopen(os.open(self.lock_file, os.O_RDWR | os.O_CREAT, 0o600), "r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                digits = lock.read(64).strip()
                before = int(digits) if digits.isdecimal() else 0
                book = LeaseBook(self.folder, before)
                try:
                    yield book
                finally:
                    if book.freed != before:  # wakes who waits for room
                        os.pwrite(lock.fileno(), f"{book.freed:020d}\n".encode(), 0)
        except OSError as error:
            raise HostError(
                f"the leases of this machine cannot be kept in {self.folder}: {error.strerror or error};"
                " make room there and make it writable, or set XDG_STATE_HOME to another folder"
            ) from error


# --- who uses a lease ---------------------------------------------------------------------------------------


class Occupants:
    """Finds who still uses a lease whose reserver is gone. Remembers folders, since an attempt that never
    came up is known only after it was watched for a while."""

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
        if state == "running":
            return True
        if state == "not_started" and (files.started.exists() or _is_young(files.script)):
            return True
        if info is None:
            return False
        about_to_end = {info.pid, info.front_pid, info.guardian_pid}
        left = leftovers(files, info.attempt_id) - about_to_end
        return any(Process.of(pid).lives() for pid in left)


def _is_young(script: Path) -> bool:
    """True if a launch script was written a moment ago: the line that runs it may just be being typed."""
    try:
        return abs(time.time() - script.stat().st_mtime) < START_PATIENCE_S
    except OSError:
        return False


# --- what fits --------------------------------------------------------------------------------------


def check_fits_ever(needs: Needs, machine: Capacity, devices: Sequence[Device], ports: Sequence[int]) -> None:
    """Raise NeverFitsError for what not even the idle machine could give. `devices`: ignored without GPUs."""
    cpus, size, names = needs.cpus or 0.0, needs.memory_bytes or 0, len(set(needs.ports))
    visible = ", ".join(device.word for device in devices) or "none"
    memory_words = f"{in_words(size)} of {in_words(machine.memory_bytes)} memory"
    gpu_words = (
        f"{needs.gpus} GPUs of {len(devices)} (visible: {visible}; set `gpus` under `each`, or make more"
    )
    asked = {
        f"{cpus:g} cores of {machine.cores:g} (set `cpus` under `each`)": cpus > machine.cores + ROUNDING,
        f"{memory_words} (set `memory` under `each`)": size > machine.memory_bytes,
        f"{gpu_words} more visible with CUDA_VISIBLE_DEVICES)": needs.gpus > len(devices),
        f"{names} ports of {len(ports)} (name fewer in `ports` under `each`)": names > len(ports),
    }
    if short := [words for words, is_short in asked.items() if is_short]:
        raise NeverFitsError(
            f"one run asks for {' and '.join(short)}: this machine cannot give that even when it is idle;"
            " ask for less, or run the sweep on a larger one"
        )


def fit(
    book: LeaseBook,
    lease_id: str,
    needs: Needs,
    machine: Capacity,
    devices: Sequence[Device],
    ports: list[int],
) -> tuple[Lease, tuple[str, ...]] | None:
    """A part of the machine that is free, and the UUIDs of its GPUs; None where there is no room."""
    others = list(book.records.values())
    cpus = machine.cores if needs.cpus is None else needs.cpus
    memory = needs.memory_bytes or 0
    if sum(record.lease.cpus for record in others) + cpus > machine.cores + ROUNDING:
        return None
    if sum(record.lease.memory_bytes for record in others) + memory > machine.memory_bytes:
        return None
    leased = {uuid for record in others for uuid in record.uuids}
    free = (device for device in devices if device.uuid not in leased)
    may = [device for device in free if needs.share_gpus or not device.users]
    gpus = sorted(may, key=lambda device: bool(device.users))[: needs.gpus]
    if len(gpus) < needs.gpus:
        return None
    held = {port for record in others for port in record.lease.ports.values()}
    chosen = _ports(needs.ports, lease_id, held, ports)
    if chosen is None:
        return None
    words, uuids = tuple(gpu.word for gpu in gpus), tuple(gpu.uuid for gpu in gpus)
    return Lease(lease_id, words, cpus, memory, chosen), uuids


def _ports(
    names: Collection[str], lease_id: str, held: Collection[int], usable: list[int]
) -> dict[str, int] | None:
    """A port for each name: free now, and in no lease; None where there are not enough. The search
    begins at a place of the lease's own, so that leases of different ledgers rarely meet."""
    start = zlib.crc32(lease_id.encode()) % len(usable)
    free = (port for port in (*usable[start:], *usable[:start]) if port not in held and is_free(port))
    found = dict(zip(dict.fromkeys(names), free, strict=False))
    return found if len(found) == len(set(names)) else None
