"""The machine we are on, as a host of sweeps: leases in a ledger that all sweeps of this user share, and jobs
in tmux sessions.

What counts: cores and memory are shared among leases only (a training without a lease is not seen, nor is
another user's); GPUs and ports are never given out while anybody uses them.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from harness.machine.gpus import Device, GpuError, usable
from harness.machine.ports import usable_ports
from harness.sweep.hosts import HostError, Job, JobState, Lease, Needs, leases, tmux_jobs
from harness.sweep.hosts.leases import Capacity, LeaseBook, Ledger, Occupants, Process, Record
from monitors.alarms import Alarms
from monitors.clock import SystemClock

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
        tmux_jobs.close_session(self._occupants.files(record.job_folder))

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
        """Takes some 50 ms, most of it tmux's: call it in a thread. Raises HostError also for a job whose
        lease is not held."""
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
        tmux_jobs.start(job)

    def state(self, job_folder: str) -> JobState:
        return self._occupants.files(Path(job_folder)).state()

    async def ended(self, job_folder: str) -> int | None:
        return await tmux_jobs.ended(self._occupants.files(Path(job_folder)))

    def stop(self, job_folder: str) -> None:
        tmux_jobs.ask_to_stop(self._occupants.files(Path(job_folder)))
