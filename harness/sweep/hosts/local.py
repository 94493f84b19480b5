"""The machine we are on, as a host of sweeps: leases in a ledger that all sweeps of this user share, and jobs
in tmux sessions, whose supervisor's files say where they stand (`monitors.files.AttemptFiles`).

What counts: cores and memory are shared among leases only (a training without a lease is not seen, nor is
another user's); GPUs and ports are never given out while anybody uses them.
"""

import asyncio
import json
import logging
import math
import os
import re
import shlex
import signal
import time
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from harness.machine.gpus import Device, GpuError, usable
from harness.machine.ports import usable_ports
from harness.redaction import is_secret
from harness.sweep.hosts import HostError, Job, JobState, Lease, Needs, leases
from harness.sweep.hosts.leases import Capacity, LeaseBook, Ledger, Occupants, Process, Record
from monitors.alarms import Alarms
from monitors.clock import SystemClock
from monitors.files import AttemptFiles
from monitors.launch import LaunchError, LaunchSpec, kill_leftovers, launch, withdraw
from monitors.records import write_atomically
from monitors.tmux import Session, TmuxError, session_name
from monitors.wait import Waiter, WakeReason

LOOK_AGAIN_S = 3.0
"""Between looks for room that is not announced: the end of another program on a GPU, or of a reserver."""
GPU_PATIENCE_S = 600.0
_log = logging.getLogger(__name__)


class LocalHost:
    """`Host` for this machine. Its methods may be called in any thread; one instance serves one sweep, whose
    runs all need the same."""

    def __init__(
        self,
        *,
        machine: Capacity | None = None,
        environment: Mapping[str, str] | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        """`machine`: what may be given out, by default all that this process may use. `environment`: where
        CUDA_VISIBLE_DEVICES is looked for, by default this process's."""
        self.machine = machine or Capacity.here()
        self._environment = os.environ if environment is None else environment
        self._ledger = ledger or Ledger()
        self._occupants = Occupants()
        self._self = Process.of(os.getpid())
        self._ports = usable_ports()
        self._freed_when_full: int | None = None
        self._gpus_seen_at = -math.inf

    # --- leases -----------------------------------------------------------------------------------------

    def reserve(self, lease_id: str, needs: Needs, job_folder: str, result_dir: str) -> Lease | None:
        """What the needs do not say is an equal share of the machine. A run whose training still holds what
        an earlier lease of it gave gets that again. Takes milliseconds, with GPUs as long as the driver."""
        needs, job, run = self.machine.shared(needs), Path(job_folder), Path(result_dir)
        with self._ledger.open() as book:
            if (held := book.hand_over(lease_id, job, run, self._self)) is not None:
                return held
        devices = self._devices() if needs.gpus else ()  # not under the lock: the driver may take its time
        if devices is None:
            return None
        leases.check_fits_ever(needs, self.machine, devices, self._ports)
        with self._ledger.open() as book:
            self._take_back(book)
            part = leases.fit(book, lease_id, needs, self.machine, devices, self._ports)
            if part is None:
                self._freed_when_full = book.freed
                return None
            lease, uuids = part
            book.put(Record(lease, job, run, self._self, uuids))
            return lease

    def release(self, lease_id: str) -> None:
        with self._ledger.open() as book:
            record = book.records.get(lease_id)
            if record is None:
                return
            if self._occupants.use(record.job_folder, record.result_dir):
                book.put(replace(record, reserver=None))
            else:
                book.remove(lease_id)
        _close_session(self._occupants.files(record.job_folder))

    async def room(self) -> None:
        woken = asyncio.Event()
        with Alarms(woken) as alarms:
            alarms.on_change(self._ledger.lock_file)
            if await asyncio.to_thread(self._freed) == self._freed_when_full:
                await SystemClock().wait(woken, LOOK_AGAIN_S)

    def _freed(self) -> int:
        with self._ledger.open() as book:
            return book.freed

    def _take_back(self, book: LeaseBook) -> None:
        reservers = {record.reserver for record in book.records.values()} - {None}
        living = {process for process in reservers if process is not None and process.lives()}
        for record in list(book.records.values()):
            if record.reserver in living or self._occupants.use(record.job_folder, record.result_dir):
                continue
            book.remove(record.lease.id)
            _log.info("lease %s was taken back: it is not used any more", record.lease.id)

    def _devices(self) -> tuple[Device, ...] | None:
        """The GPUs; None while the driver, which has answered before, is silent for once."""
        try:
            devices = usable(self._environment)
        except GpuError as error:
            if time.monotonic() - self._gpus_seen_at > GPU_PATIENCE_S:
                raise HostError(f"{error}; without its answer no GPU is given out") from error
            _log.warning("no GPU is given out for now: %s", error)
            return None
        self._gpus_seen_at = time.monotonic()
        return devices

    # --- jobs -------------------------------------------------------------------------------------------

    def start(self, job: Job) -> None:
        """Takes some 50 ms, most of it tmux's: call it in a thread. Raises HostError where tmux refuses, the
        folder cannot be written, the job cannot be described, or its lease is not held."""
        if self._occupants.files(job.folder).started.exists():
            return
        with self._ledger.open() as book:
            record = book.records.get(job.lease.id)
            if record is None:
                raise HostError(
                    f"run {job.run} has lost its lease {job.lease.id}, and somebody else may have its part of"
                    " the machine; resume the sweep, which asks for another"
                )
            if record.job_folder != job.folder:
                book.put(replace(record, job_folder=job.folder, result_dir=job.result_dir))
        number = re.search(r"\d+$", job.folder.name)
        unique = f"{zlib.crc32(job.lease.id.encode()):08x}"
        spec = LaunchSpec(
            attempt_dir=job.folder,
            attempt_id=job.lease.id,
            session_name=session_name(f"watch_{job.run}", unique, int(number[0]) if number else 1),
            command=shlex.join(job.command),
            cwd=job.cwd,
            env=dict(job.environment),
            secret_env={name: value for name, value in job.environment.items() if is_secret(name, value)},
            spare_daemons=True,
        )
        try:
            job.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(
                _note(job.folder), {"name": spec.session_name, "socket": Session(spec.session_name).socket}
            )
            launch(spec)
        except (TmuxError, LaunchError) as error:
            why = f"run {job.run} cannot be started: {error}. Fix: correct that, then resume the sweep"
            raise HostError(why) from error
        except OSError as error:
            raise HostError(
                f"run {job.run} cannot be started from {job.folder}: {error.strerror or error};"
                " make room there and make it writable, then resume the sweep"
            ) from error

    def state(self, job_folder: str) -> JobState:
        return self._occupants.files(Path(job_folder)).state()

    async def ended(self, job_folder: str) -> int | None:
        """Tidies up behind the job: its session is closed, and what a supervisor that was killed has left of
        the harness is ended, so that another job can take the run on. Its training, which has a supervisor of
        its own, goes on."""
        files = self._occupants.files(Path(job_folder))
        session = await asyncio.to_thread(_session, files.dir)
        waiter = Waiter(files, session)
        while True:
            wake = await waiter.wait()
            if wake.reason in (WakeReason.EXITED, WakeReason.LOST):
                break
            if wake.reason == WakeReason.SESSION_GONE and files.state() == "not_started" and withdraw(files):
                await asyncio.to_thread(_close_session, files)
                return None
        info = files.supervisor()
        if wake.reason == WakeReason.LOST and info is not None:
            await asyncio.to_thread(kill_leftovers, files, info.attempt_id)
        await asyncio.to_thread(_close_session, files)
        return wake.exit.status if wake.exit is not None else None

    def stop(self, job_folder: str) -> None:
        """Send SIGUSR1 to the job's harness. One that cannot listen yet would die of it: ask again."""
        files = self._occupants.files(Path(job_folder))
        info = files.supervisor()
        if info is None or info.command_pid is None or files.state() != "running":
            return
        command = Process(info.command_pid, info.command_start_ticks, info.boot_id)
        if command.lives() and _listens_to(command.pid, signal.SIGUSR1):
            try:
                os.kill(command.pid, signal.SIGUSR1)
            except ProcessLookupError:
                return  # it has just ended by itself


# --- one job as a process -----------------------------------------------------------------------------------


def _close_session(files: AttemptFiles) -> None:
    """Close the job's tmux session, if it is there; that of a job that runs or is starting is left alone."""
    session, state = _session(files.dir), files.state()
    if session is None or state == "running" or (state == "not_started" and files.started.exists()):
        return
    try:
        session.kill()
        _note(files.dir).unlink(missing_ok=True)
    except (TmuxError, OSError) as error:
        _log.warning("the tmux session %s stays open: %s", session.name, error)


def _listens_to(pid: int, signum: int) -> bool:
    """True if the process does something of its own with this signal, or where that is not known."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return not Path("/proc").is_dir()
    caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return caught is not None and bool(int(caught[1], 16) >> (signum - 1) & 1)


def _note(job_folder: Path) -> Path:
    return job_folder / "session.json"


def _session(job_folder: Path) -> Session | None:
    """The session that was made for the job, whether or not it is there; None after it was closed."""
    try:
        note = json.loads(_note(job_folder).read_text(encoding="utf-8"))
        return Session(note["name"], note["socket"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
