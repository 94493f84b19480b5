"""A machine with so many slots on which a job is a play instead of a process: it goes as a test says, for as
long as it says, and leaves the files that a run leaves. What happened, and when, is kept."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.journal import Journal
from harness.journal.events import ActionFailed, Intent, StopAsked
from harness.sweep.hosts import Job, JobState, Lease, Needs, NeverFitsError
from tests.harness.runs import created

Play = Callable[[Job], int | None]


def ends(
    outcome: str = "succeeded",
    reason: str = "it is done",
    status: int = 0,
    values: Mapping[str, float] = {"loss": 0.5},
) -> Play:
    """The job brings its run to an end, with one row of these values."""

    def play(job: Job) -> int | None:
        begins(job)
        if values:
            measures(job, values)
        flag = {"outcome": outcome, "reason": reason}
        (job.result_dir / "finish.flag").write_text(json.dumps(flag))
        return status

    return play


def dies(status: int | None = None, *, begun: bool = True) -> Play:
    """The job ends, and its run has no end yet."""

    def play(job: Job) -> int | None:
        if begun:
            begins(job)
        return status

    return play


def gets_on(status: int) -> Play:
    """The job ends before its run does, and has brought it a step further."""

    def play(job: Job) -> int | None:
        job.result_dir.mkdir(exist_ok=True)
        with Journal(job.result_dir / "journal.jsonl", lambda: 1.0) as journal:
            journal.append(StopAsked("somebody") if journal.entries else created())
        return status

    return play


def fails(status: int) -> Play:
    """The job ends with an error of the harness in the run's first action."""

    def play(job: Job) -> int | None:
        job.result_dir.mkdir(exist_ok=True)
        with Journal(job.result_dir / "journal.jsonl", lambda: 1.0) as journal:
            if not journal.entries:
                journal.append(created())
            journal.append(Intent("prepare"))
            journal.append(ActionFailed("prepare", "an error"))
        return status

    return play


def measures(job: Job, values: Mapping[str, float]) -> None:
    rows = job.result_dir / "attempts/01/metrics.jsonl"
    rows.parent.mkdir(parents=True, exist_ok=True)
    rows.write_text(
        json.dumps({"step": 1, "values": values, "source": {"file": "pane.log", "line": 1}}) + "\n"
    )


def begins(job: Job) -> None:
    job.result_dir.mkdir(exist_ok=True)
    with (job.result_dir / "journal.jsonl").open("a") as file:
        file.write("{}\n")


@dataclass
class Life:
    """One job. Times are those of `time.perf_counter`; `done` is set at its end."""

    job: Job
    started_at: float
    done: asyncio.Event
    status: int | None = None
    ended_at: float | None = None


class ScriptedHost:
    """Made inside the event loop that the jobs run on. `lives`: by job folder, in the order of their start.
    `held`: runs that go on until they are let end or stopped. `twice`: jobs that were started again although
    they had been. `most`: leases at once."""

    def __init__(
        self,
        plays: Mapping[str, list[Play]] | None = None,
        room_for: int = 99,
        seconds: Callable[[str], float] = lambda run: 0.0,
    ) -> None:
        """`plays`: what the jobs of a run do, one after the other; a run that no play is given for ends well.
        `room_for`: jobs at once; `seconds`: how long a job of this run takes."""
        self.plays = {run: list(given) for run, given in (plays or {}).items()}
        self.room_for = room_for
        self.held: set[str] = set()
        self.fits = True
        self.leases: dict[str, Lease] = {}
        self.lives: dict[str, Life] = {}
        self.stopped: list[str] = []
        self.twice: list[str] = []
        self.most = 0
        self._seconds = seconds
        self._room = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()

    def reserve(self, lease_id: str, needs: Needs, job_folder: str, result_dir: str) -> Lease | None:
        if not self.fits:
            raise NeverFitsError("a run needs 8 GPUs, and this machine has 0")
        with self._lock:
            if lease_id not in self.leases and len(self.leases) >= self.room_for:
                return None
            self.most = max(self.most, len({*self.leases, lease_id}))
            return self.leases.setdefault(lease_id, Lease(lease_id, ports={"MASTER_PORT": 20_000}))

    def release(self, lease_id: str) -> None:
        with self._lock:
            self.leases.pop(lease_id, None)
        self._loop.call_soon_threadsafe(self._room.set)

    async def room(self) -> None:
        self._room.clear()
        await self._room.wait()

    def start(self, job: Job) -> None:
        folder = str(job.folder)
        with self._lock:
            if folder in self.lives:
                self.twice.append(folder)
                return
            assert job.lease.id in self.leases, f"{job.run} was started without its lease"
            self.lives[folder] = life = Life(job, time.perf_counter(), asyncio.Event())
        if job.run not in self.held:
            self._loop.call_soon_threadsafe(self._loop.call_later, self._seconds(job.run), self._end, life)

    def _end(self, life: Life) -> None:
        if life.ended_at is None:
            given = self.plays.get(life.job.run, [])
            life.status = (given.pop(0) if given else ends())(life.job)
            life.ended_at = time.perf_counter()
            life.done.set()

    def state(self, job_folder: str) -> JobState:
        life = self.lives.get(job_folder)
        return "not_started" if life is None else "running" if life.ended_at is None else "ended"

    async def ended(self, job_folder: str) -> int | None:
        life = self.lives[job_folder]
        await life.done.wait()
        return life.status

    def stop(self, job_folder: str) -> None:
        life = self.lives.get(job_folder)
        if life is not None and life.ended_at is None:
            self.stopped.append(life.job.run)
            self.plays[life.job.run] = [ends("cancelled", "stopped", 130)]
            self._loop.call_soon_threadsafe(self._end, life)

    def let_end(self, run: str) -> None:
        self.held.discard(run)
        for life in self.lives.values():
            if life.job.run == run:
                self._end(life)

    @property
    def started(self) -> list[str]:
        """`p01-s0/01`: run and number of every job, in the order of their start."""
        return [f"{life.job.run}/{life.job.folder.name[-2:]}" for life in self.lives.values()]

    def commands(self, run: str) -> list[tuple[str, ...]]:
        return [life.job.command for life in self.lives.values() if life.job.run == run]

    def running(self) -> set[str]:
        return {life.job.run for life in self.lives.values() if life.ended_at is None}
