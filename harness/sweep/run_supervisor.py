"""Follows one run from its first job to its end, over as many jobs as that takes.

A job is one process of the harness. It may be killed, and the machine with it: then another job resumes the
run. A run that has not begun is started from its blueprint, one that a person wants to end is stopped. It is
over when its finish.flag says so, or when no job could bring it that far.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from harness import journal
from harness.agent import approval
from harness.codec import decode
from harness.journal.events import ActionFailed, AttemptEvent, Held, Intent, LetGo, OptionsGiven, Owner
from harness.options import RunOptions
from harness.self_command import HARNESS_WITHOUT_PYTHONPATH
from harness.sweep.hosts import Host, Job, Lease
from harness.sweep.plan import newest_attempt
from harness.sweep.run_files import RunEnd, has_value, last_words, run_end
from harness.sweep.state import (
    Closing,
    MetricNamed,
    RunAsks,
    RunEnded,
    RunGoesOn,
    RunMeasured,
    RunStarted,
    RunState,
    Sweep,
)
from monitors.alarms import until
from monitors.launch import environment_of_caller
from monitors.metrics.row import metric_name

MAX_WITHOUT_PROGRESS = 3
CANNOT_RUN = 2
LEAST_TIME_S = 1.0
_NO_PROGRESS = (Owner, OptionsGiven, LetGo, Held, Intent, ActionFailed)


class RunSupervisor:
    """Follows runs of one sweep, any number side by side. `slot_freed` is set when one runs nothing any more
    because a person is asked."""

    def __init__(
        self, sweep: Sweep, host: Host, environment: Callable[[], Mapping[str, str]], pause_s: float
    ) -> None:
        self._sweep = sweep
        self._host = host
        self._environment = environment
        self._pause_s = pause_s
        self._options = decode(RunOptions, sweep.plan.options)
        self.slot_freed = asyncio.Event()

    async def follow(self, run: str, lease: Lease | None = None) -> None:
        """Follow the run, whose job is recorded as started, until its end is recorded. `lease`: of a job that
        was just reserved; None after a crash, where it is asked for again. Cancelling is safe."""
        while True:
            state = self._sweep.state.runs[run]
            status = await self._job_to_its_end(state, lease)
            lease = None
            ended = self._end_of(state, status)
            await asyncio.to_thread(self._host.release, self._job_id(run, state.job))
            if ended is not None:
                self._sweep.record(RunEnded(run, ended.outcome, ended.reason))
                return
            if journal.is_owned(path := self._journal(run)):  # a person's `harness resume` has taken it over
                await until(lambda: not journal.is_owned(path), path)
                continue
            question = approval.open_question(_entries(path)) if status == approval.GIVES_WAY else None
            if question is not None:
                await self._answered(run, question)
                lease = await self._room_for(run, state.job + 1)
            await self._next_job(state)

    async def _answered(self, run: str, question: approval.OpenQuestion) -> None:
        """Wait until a person has answered here, or a run that asks the same, or time is over; the slot is
        free for others meanwhile."""
        sweep, folder = self._sweep, self._sweep.folder.result_dir(run)
        alike, waits_until = question.alike(folder), question.asked_at + self._options.patience_s
        if sweep.state.runs[run].idle_since is None:
            sweep.record(RunAsks(run, question.number, alike, question.text, question.options))
        self.slot_freed.set()
        self._share_answer(alike)
        await until(
            lambda: (
                approval.is_answered(folder, question)
                or sweep.clock() >= waits_until
                or sweep.state.stop_asked is not None
            ),
            approval.answer_file(folder, question.number),
            sweep.folder.journal,
        )
        self._share_answer(alike)
        if sweep.state.runs[run].asks:
            sweep.record(RunGoesOn(run))

    def _share_answer(self, alike: str) -> None:
        """One answer holds for every run that asks the same, also for one that asks later."""
        asked = self._sweep.state.questions[alike].asked
        approval.share({self._sweep.folder.result_dir(run): number for run, number in asked.items()})

    async def first_value(self, run: str) -> None:
        """Return once the run's journal tells of its first step and its rows have the metric that the plan
        names (validations of the bundled trainer stand elsewhere). Cancelling is safe."""
        path, result_dir = self._journal(run), self._sweep.folder.result_dir(run)
        metric = metric_name(self._sweep.plan.metric)

        def is_there() -> bool:
            events = journal.events_of(_entries(path), AttemptEvent)
            return any(event.event == "first_step" for event in events)

        await until(is_there, path)
        if metric and not metric.startswith("val/"):
            rows = (newest_attempt(result_dir) or result_dir) / "metrics.jsonl"
            await until(lambda: has_value(result_dir, metric), rows)

    async def measure(self, run: str) -> None:
        """Record what the run came to. The first one that ended by itself also says which metric the runs are
        compared by; where it has none, or not the one that the plan names, no other run is started."""
        from harness.sweep.measurement import Measurement

        sweep, planned = self._sweep, self._sweep.state.runs[run].run
        found = await asyncio.to_thread(Measurement.of, sweep.folder.result_dir(run), planned, sweep.state)
        if found.metric and not sweep.state.has_metric:
            sweep.record(MetricNamed(found.metric, found.goal, found.why))
        if found.lacks and not (sweep.state.has_metric or sweep.state.closing):
            sweep.record(Closing(found.lacks))
        if found.value is not None and not planned.is_canary:
            sweep.record(RunMeasured(run, found.value))

    async def reserve(self, run: str, number: int) -> Lease | None:
        """A part of the machine for this job of the run; None while there is no room."""
        return await asyncio.to_thread(
            self._host.reserve,
            self._job_id(run, number),
            self._sweep.plan.needs,
            str(self._sweep.folder.job(run, number)),
            str(self._sweep.folder.result_dir(run)),
        )

    async def _room_for(self, run: str, number: int) -> Lease:
        while (lease := await self.reserve(run, number)) is None:
            await self._host.room()
        return lease

    def _job_id(self, run: str, number: int) -> str:
        """The name of a job and of its lease: unique for ever, and the same whenever it is asked for."""
        return f"{self._sweep.state.sweep_id}-{run}-{number:02d}"

    def _journal(self, run: str) -> Path:
        return self._sweep.folder.result_dir(run) / "journal.jsonl"

    # --- one job ----------------------------------------------------------------------------------------

    async def _job_to_its_end(self, state: RunState, lease: Lease | None) -> int | None:
        """Start the job unless it was started or the run is over, and wait for its end; its exit status."""
        folder = str(self._sweep.folder.job(state.name, state.job))
        if await asyncio.to_thread(self._host.state, folder) == "not_started":
            is_stopping, has_begun = (
                self._sweep.state.stop_asked,
                journal.has_begun(self._journal(state.name)),
            )
            if run_end(self._sweep.folder.result_dir(state.name)) or (is_stopping and not has_begun):
                return None  # nothing is left to do
            lease = lease or await self._room_for(state.name, state.job)
            await asyncio.to_thread(self._host.start, self._job(state, lease))
        return await self._host.ended(folder)

    def _job(self, state: RunState, lease: Lease) -> Job:
        sweep, folder, run = self._sweep.state, self._sweep.folder, state.name
        result_dir, settings_dir = folder.result_dir(run), self._options.settings_dir
        has_begun = journal.has_begun(self._journal(run))
        is_stopping = sweep.stop_asked is not None and has_begun
        words: tuple[str, ...] = ("stop" if is_stopping else "resume", str(result_dir))
        if not has_begun:
            left = None if sweep.deadline_at is None else sweep.deadline_at - self._sweep.clock()
            limit = () if left is None else ("--max-time", f"{max(LEAST_TIME_S, left):.0f} s")
            words = ("run", str(folder.run_data(run)), *limit, *_arguments(self._options))
        environment = environment_of_caller() if is_stopping else self._environment()
        return Job(
            run=run,
            folder=folder.job(run, state.job),
            result_dir=result_dir,
            command=(*HARNESS_WITHOUT_PYTHONPATH, *words),
            cwd=Path(settings_dir) if settings_dir else folder.dir,
            environment={**environment, **lease.environment()},
            lease=lease,
        )

    def _end_of(self, state: RunState, status: int | None) -> RunEnd | None:
        """How the run ended with this job; None when another job is to go on with it."""
        folder, run = self._sweep.folder, state.name
        if (ended := run_end(folder.result_dir(run))) is not None:
            return ended
        if not journal.has_begun(self._journal(run)):
            if self._sweep.state.stop_asked:
                return RunEnd("cancelled", f"stopped by {self._sweep.state.stop_asked} before it had begun")
            if status == CANNOT_RUN:
                return RunEnd("cannot_run", last_words(folder.job(run, state.job)))
        if self._jobs_without_progress(state) > MAX_WITHOUT_PROGRESS:
            words = last_words(folder.job(run, state.job))
            times = MAX_WITHOUT_PROGRESS + 1
            return RunEnd("lost", f"its harness ended {times} times and got nowhere: {words}")
        return None

    async def _next_job(self, state: RunState) -> None:
        """Record that another job takes the run on, after a while where the last ones got nowhere; the lease
        is asked for when it is started."""
        run, number, fruitless = state.name, state.job + 1, self._jobs_without_progress(state)
        await asyncio.sleep(self._pause_s * max(0, fruitless - 1))
        self._sweep.record(RunStarted(run, number, self._job_id(run, number), fruitless, self._done(run)))

    def _jobs_without_progress(self, state: RunState) -> int:
        """How many jobs in a row, the last one among them, brought the run no further."""
        return 0 if self._done(state.name) > state.entries else state.jobs_without_progress + 1

    def _done(self, run: str) -> int:
        """How much has happened in the run, by its own journal; who looked after it does not count, nor what
        was begun and not done."""
        entries = _entries(self._journal(run))
        return sum(not isinstance(entry.event, _NO_PROGRESS) for entry in entries)


def _entries(path: Path) -> Sequence[journal.Entry]:
    """What the run's own journal says; nothing where it cannot be read."""
    try:
        return journal.read(path)
    except (OSError, journal.JournalDamagedError):
        return []


def _arguments(options: RunOptions) -> list[str]:
    """The options as the command line of `harness run` takes them."""
    given = {
        "--model": options.model if options.policy == "llm" else None,
        "--max-cost": options.max_cost_usd,
        "--max-llm-calls": options.max_calls,
        "--answer-within": "never" if options.answer_within_s == 0 else f"{options.patience_s:.0f} s",
    }
    words = ["--policy", options.policy, "--quiet-model"]
    for name, value in (*given.items(), *(("--pass-key", key) for key in options.pass_keys)):
        words += [name, str(value)] if value is not None else []
    return words
