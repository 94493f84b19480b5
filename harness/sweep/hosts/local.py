"""The machine we are on, as a host of sweeps: leases in a ledger that all sweeps of this user share, and jobs
in tmux sessions.

What counts: cores and memory are shared among leases only (a training without a lease is not seen, nor is
another user's); GPUs and ports are never given out while anybody uses them.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from harness.machine.gpus import Device, GpuError, usable
from harness.machine.ports import usable_ports
from harness.sweep.hosts import HostError, Job, JobEnd, JobState, Lease, Needs, leases, tmux_jobs
from harness.sweep.hosts.leases import Capacity, LeaseBook, Ledger, Record
from harness.sweep.hosts.occupants import Occupants, Process
from monitors.alarms import Alarms
from monitors.clock import Clock, SystemClock

SAFETY_CHECK_S = 30.0
GPU_CHECK_S = 1.0
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
        self._gpu_check_s: float | None = None
        self._gpus_seen_at: float | None = None

    # --- leases -----------------------------------------------------------------------------------------

    def reserve(self, lease_id: str, needs: Needs, job_folder: str, result_dir: str) -> Lease | None:
        """As `Host.reserve`. What the needs do not say is an equal share of the machine. A run whose training
        still holds what an earlier lease of it gave gets that again.

        Takes milliseconds, with GPUs as long as the driver takes to answer. Raises HostError when that does
        not, or the ledger cannot be written.
        """
        leases.check_id(lease_id)
        needs = self.machine.shared(needs)
        if not needs.gpus:
            leases.check_fits_ever(needs, self.machine, (), self._ports)
        looked_at, devices = None, None
        while True:
            with self._ledger.open() as book:
                held = leases.held_for(book, lease_id, Path(result_dir))
                if held is not None:
                    return leases.hand_over(book, held, lease_id, Path(job_folder), self._self)
                self._take_back(book)
                part = None
                if devices is not None or not needs.gpus:
                    part = leases.fit(book, lease_id, needs, self.machine, devices or (), self._ports)
                if part is not None:
                    lease, uuids = part
                    book.put(Record(lease, Path(job_folder), Path(result_dir), self._self, uuids))
                    return lease
                if not needs.gpus or looked_at == book.freed:
                    self._is_full(book, devices or ())
                    return None
                looked_at = book.freed  # a GPU that is freed while the driver is asked still looks used
            devices = self._devices(needs)
            if devices is None:
                return None

    def release(self, lease_id: str) -> None:
        """Give a lease back. While its job or its training still runs the part stays held, for the run's next
        job or until they end."""
        with self._ledger.open() as book:
            record = book.records.get(lease_id)
            if record is None:
                return
            files = self._occupants.files(record.job_folder)
            if self._is_occupied(record):
                book.put(Record(record.lease, record.job_folder, record.result_dir, None, record.uuids))
            else:
                book.remove(lease_id)
                self._occupants.forget(record.job_folder, record.result_dir)
        tmux_jobs.close_session(files)

    async def room(self) -> None:
        """As `Host.room`, seen from the last `reserve` that found none. Also returns after a while without a
        word (30 s; where a process outside of all leases was on a GPU, 1 s, 2 s, 4 s …): that such a process
        ends, or a port is given up, is not announced, and only another `reserve` can tell."""
        before = self._freed_when_full
        until = self._clock.time() + (self._gpu_check_s or SAFETY_CHECK_S)
        woken = asyncio.Event()
        with Alarms(woken) as alarms:
            while True:
                woken.clear()
                alarms.on_change(self._ledger.lock_file)
                freed, others = await asyncio.to_thread(self._look_around)
                before = freed if before is None else before
                if freed != before:
                    return
                for pid in others:
                    alarms.on_process_end(pid)
                left = until - self._clock.time()
                if left <= 0:
                    break
                await self._clock.wait(woken, left)
        if self._gpu_check_s is not None:
            self._gpu_check_s = min(2 * self._gpu_check_s, SAFETY_CHECK_S)

    def _look_around(self) -> tuple[int, set[int]]:
        """Take back what is not used any more; how often a part became free, and the processes of others
        whose end may free one."""
        with self._ledger.open() as book:
            self._take_back(book)
            records = [r for r in book.records.values() if r.reserver != self._self]
            freed = book.freed
        pids: set[int] = set()
        for record in records:
            if record.reserver is not None and record.reserver.lives():
                pids.add(record.reserver.pid)
            elif occupant := self._occupants.of(record.job_folder, record.result_dir):
                pids |= {occupant.pid} if occupant.pid is not None else set()
        return freed, pids

    def _take_back(self, book: LeaseBook) -> None:
        for record in leases.take_back(book, self._is_occupied):
            self._occupants.forget(record.job_folder, record.result_dir)

    def _is_occupied(self, record: Record) -> bool:
        return self._occupants.of(record.job_folder, record.result_dir) is not None

    def _is_full(self, book: LeaseBook, devices: tuple[Device, ...]) -> None:
        """Remember what `room` has to wait for."""
        if self._freed_when_full != book.freed:
            self._gpu_check_s = None
        self._freed_when_full = book.freed
        foreign = [f"{d.word}: {d.users}" for d in leases.unleased(book, devices) if d.users]
        if foreign and self._gpu_check_s is None:
            self._gpu_check_s = GPU_CHECK_S
            _log.info("GPUs that are in use without a lease are left alone: %s", "; ".join(foreign))
        elif not foreign:
            self._gpu_check_s = None

    def _devices(self, needs: Needs) -> tuple[Device, ...] | None:
        """The GPUs; None while the driver, which has answered before, is silent for once."""
        try:
            devices = usable(self._environment)
        except GpuError as error:
            seen_at = self._gpus_seen_at
            if seen_at is None or self._clock.time() - seen_at > GPU_PATIENCE_S:
                raise HostError(f"{error}; without its answer no GPU is given out") from error
            _log.warning("no GPU is given out for now: %s", error)
            self._gpu_check_s = self._gpu_check_s or GPU_CHECK_S
            return None
        self._gpus_seen_at = self._clock.time()
        leases.check_fits_ever(needs, self.machine, devices, self._ports)
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
                book.put(Record(record.lease, job.folder, job.result_dir, record.reserver, record.uuids))
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
