"""Follows one run from its first job to its end, over as many jobs as that takes.

A job is one process of the harness. It may be killed, and the machine with it: then another job resumes the
run. A run is over when its finish.flag says so, or when no job could bring it that far.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from harness import journal
from harness.journal.events import AttemptEvent
from harness.options import RunOptions
from harness.sweep import jobs
from harness.sweep.events import RunEnded, RunMeasured, RunStarted
from harness.sweep.hosts import Host, Lease
from harness.sweep.run_files import RunEnd, last_words, run_end, value_at_end
from harness.sweep.state import RunState
from harness.sweep.sweep import Sweep
from monitors.alarms import until
from monitors.launch import environment_of_caller

MAX_WITHOUT_PROGRESS = 3
CANNOT_RUN = 2


class RunSupervisor:
    """Follows runs of one sweep, any number side by side."""

    def __init__(
        self, sweep: Sweep, host: Host, environment: Callable[[], Mapping[str, str]], pause_s: float
    ) -> None:
        self._sweep = sweep
        self._host = host
        self._environment = environment
        self._pause_s = pause_s
        self._options = RunOptions.from_json(sweep.plan.options)

    async def follow(self, run: str, lease: Lease | None = None) -> None:
        """Follow the run, whose job is recorded as started, until its end is recorded. `lease`: of a job that
        was just reserved; None after a crash, where it is asked for again. Cancelling is safe."""
        while True:
            state = self._sweep.state.find(run)
            status = await self._job_to_its_end(state, lease)
            lease = None
            ended = self._end_of(state, status)
            await asyncio.to_thread(self._host.release, self._lease_id(state))
            if ended is not None:
                self._sweep.record(RunEnded(run, ended.outcome, ended.reason))
                return
            if await self._is_carried_elsewhere(run):
                continue
            await self._next_job(state)

    async def first_step(self, run: str) -> None:
        """Return once the run's journal tells of its first step. Cancelling is safe."""
        path = self._sweep.folder.result_dir(run) / "journal.jsonl"
        await until(lambda: _has_first_step(path), path)

    async def measure(self, run: str) -> None:
        """Record the metric at the run's end, which the display shows until the comparison is made."""
        result_dir, metric = self._sweep.folder.result_dir(run), self._sweep.plan.metric
        value = await asyncio.to_thread(value_at_end, result_dir, metric)
        if value is not None:
            self._sweep.record(RunMeasured(run, value))

    async def _job_to_its_end(self, state: RunState, lease: Lease | None) -> int | None:
        """Start the job unless it was started or the run is over, and wait for its end; its exit status."""
        folder = str(self._sweep.folder.job(state.run.name, state.job))
        if await asyncio.to_thread(self._host.state, folder) == "not_started":
            if self._is_over_before_it_starts(state.run.name):
                return None
            await asyncio.to_thread(self._start, state, lease or await self._reserved(state))
        return (await self._host.ended(folder)).status

    def _is_over_before_it_starts(self, run: str) -> bool:
        """True if a job that was not started has nothing to do: its run has ended, or is not to begin."""
        if run_end(self._sweep.folder.result_dir(run)) is not None:
            return True
        return self._sweep.state.stop_asked is not None and not jobs.has_begun(self._sweep.folder, run)

    async def reserve(self, run: str, number: int) -> Lease | None:
        """A part of the machine for this job of the run; None while there is no room."""
        return await asyncio.to_thread(
            self._host.reserve,
            jobs.lease_id(self._sweep.state.sweep_id, run, number),
            self._sweep.plan.needs,
            str(self._sweep.folder.job(run, number)),
            str(self._sweep.folder.result_dir(run)),
        )

    async def _reserved(self, state: RunState) -> Lease:
        """The lease of a job that was about to start when the last scheduler died: held still, or new."""
        while (lease := await self.reserve(state.run.name, state.job)) is None:
            await self._host.room()
        return lease

    def _start(self, state: RunState, lease: Lease) -> None:
        sweep, name = self._sweep.state, state.run.name
        is_stopping = sweep.stop_asked is not None and jobs.has_begun(self._sweep.folder, name)
        left = sweep.deadline_at - self._sweep.clock() if sweep.deadline_at is not None else None
        self._host.start(
            jobs.job(
                self._sweep.folder,
                name,
                state.job,
                lease,
                self._options,
                environment_of_caller() if is_stopping else self._environment(),
                left,
                is_stopping=is_stopping,
            )
        )

    def _end_of(self, state: RunState, status: int | None) -> RunEnd | None:
        """How the run ended with this job; None when another job is to go on with it."""
        folder, run = self._sweep.folder, state.run.name
        ended = run_end(folder.result_dir(run))
        if ended is not None:
            return ended
        begun = jobs.has_begun(folder, run)
        if self._sweep.state.stop_asked and not begun:
            return RunEnd("cancelled", f"stopped by {self._sweep.state.stop_asked} before it had begun")
        if status == CANNOT_RUN and not begun:
            return RunEnd("cannot_run", last_words(folder.job(run, state.job)))
        if self._jobs_without_progress(state) > MAX_WITHOUT_PROGRESS:
            words = last_words(folder.job(run, state.job))
            return RunEnd(
                "lost", f"its harness ended {MAX_WITHOUT_PROGRESS + 1} times and got nowhere: {words}"
            )
        return None

    def _jobs_without_progress(self, state: RunState) -> int:
        """How many jobs in a row, the last one among them, brought the run no further."""
        went_on = jobs.entries(self._sweep.folder, state.run.name) > state.entries
        return 0 if went_on else state.jobs_without_progress + 1

    async def _is_carried_elsewhere(self, run: str) -> bool:
        """Wait while another process (a person's `harness resume`) has taken the run over; True if one
        had."""
        path = self._sweep.folder.result_dir(run) / "journal.jsonl"
        if not journal.is_owned(path):
            return False
        await until(lambda: not journal.is_owned(path), path)
        return True

    async def _next_job(self, state: RunState) -> None:
        """Record that another job takes the run on, after a while where the last ones got nowhere; the lease
        is asked for when it is started."""
        run, number, fruitless = state.run.name, state.job + 1, self._jobs_without_progress(state)
        await asyncio.sleep(self._pause_s * max(0, fruitless - 1))
        lease_id = jobs.lease_id(self._sweep.state.sweep_id, run, number)
        entries = jobs.entries(self._sweep.folder, run)
        self._sweep.record(RunStarted(run, number, lease_id, fruitless, entries))

    def _lease_id(self, state: RunState) -> str:
        return jobs.lease_id(self._sweep.state.sweep_id, state.run.name, state.job)


def _has_first_step(path: Path) -> bool:
    try:
        entries = journal.read(path)
    except (OSError, journal.JournalDamagedError):
        return False
    return any(event.event == "first_step" for event in journal.events_of(entries, AttemptEvent))
