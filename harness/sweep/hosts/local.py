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
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from harness.machine.gpus import Device, GpuError, usable
from harness.machine.ports import usable_ports
from harness.sweep.hosts import HostError, Job, JobEnd, JobState, Lease, Needs, leases, tmux_jobs
from harness.sweep.hosts.leases import Capacity, LeaseBook, Ledger, Record
from harness.sweep.hosts.occupants import Occupants, Process
from monitors.alarms import Alarms
from monitors.clock import Clock, SystemClock

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
        clock: Clock | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        """`machine`: what may be given out, by default all that this process may use. `environment`: where
        CUDA_VISIBLE_DEVICES is looked for, by default this process's."""
        self.machine = machine or Capacity.here()
        self._environment = os.environ if environment is None else environment
        self._clock: Clock = clock or SystemClock()
        self._ledger = ledger or Ledger()
        self._occupants = Occupants()
        self._self = Process.of(os.getpid())
        self._ports = usable_ports()
        self._freed_when_full: int | None = None
        self._gpus_seen_at = -math.inf

    # --- leases -----------------------------------------------------------------------------------------

    def reserve(self, lease_id: str, needs: Needs, job_folder: str, result_dir: str) -> Lease | None:
        """As `Host.reserve`. What the needs do not say is an equal share of the machine. A run whose training
        still holds what an earlier lease of it gave gets that again.

        Takes milliseconds, with GPUs as long as the driver takes to answer. Raises HostError when that does
        not, or the ledger cannot be written.
        """
        needs = self.machine.shared(needs)
        with self._ledger.open() as book:
            held = book.held_for(lease_id, Path(result_dir))
            if held is not None:
                return book.hand_over(held, lease_id, Path(job_folder), self._self)
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
            book.put(Record(lease, Path(job_folder), Path(result_dir), self._self, uuids))
            return lease

    def release(self, lease_id: str) -> None:
        """Give a lease back. While its job or its training still runs the part stays held, for the run's next
        job or until they end."""
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
        """As `Host.room`, seen from the last `reserve` that found none; after LOOK_AGAIN_S without a word
        only another `reserve` can tell."""
        woken = asyncio.Event()
        with Alarms(woken) as alarms:
            alarms.on_change(self._ledger.lock_file)
            if await asyncio.to_thread(self._freed) == self._freed_when_full:
                await self._clock.wait(woken, LOOK_AGAIN_S)

    def _freed(self) -> int:
        with self._ledger.open() as book:
            return book.freed

    def _take_back(self, book: LeaseBook) -> None:
        """Free what is not used any more."""
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
            if self._clock.time() - self._gpus_seen_at > GPU_PATIENCE_S:
                raise HostError(f"{error}; without its answer no GPU is given out") from error
            _log.warning("no GPU is given out for now: %s", error)
            return None
        self._gpus_seen_at = self._clock.time()
        return devices

    # --- jobs -------------------------------------------------------------------------------------------

    def start(self, job: Job) -> None:
        """As `Host.start`. Takes some 50 ms, most of it tmux's: call it in a thread. Raises HostError also
        for a job whose lease is not held."""
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
        """As `Host.state`."""
        return self._occupants.files(Path(job_folder)).state()

    async def ended(self, job_folder: str) -> JobEnd:
        """As `Host.ended`; also closes the job's tmux session."""
        return await tmux_jobs.ended(self._occupants.files(Path(job_folder)), self._clock)

    def stop(self, job_folder: str) -> None:
        """As `Host.stop`. A harness that is only just starting cannot listen yet and is not disturbed: ask
        again."""
        tmux_jobs.ask_to_stop(self._occupants.files(Path(job_folder)))
