"""A host on which every run goes as a test says, and which remembers what was asked of it."""

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from harness.journal import Journal
from harness.journal.events import StopAsked
from harness.sweep.hosts import Job, JobEnd, JobState, Lease, Needs, NeverFitsError
from tests.harness.runs import created

Play = Callable[[Job], JobEnd]


def ends(outcome: str = "succeeded", reason: str = "it is done", status: int = 0) -> Play:
    """The job brings its run to an end."""

    def play(job: Job) -> JobEnd:
        begins(job)
        flag = {"outcome": outcome, "reason": reason}
        (job.result_dir / "finish.flag").write_text(json.dumps(flag))
        return JobEnd(status, reason)

    return play


def dies(status: int | None = None, *, begun: bool = True) -> Play:
    """The job ends, and its run has no end yet."""

    def play(job: Job) -> JobEnd:
        if begun:
            begins(job)
        return JobEnd(status, "killed")

    return play


def gets_on(status: int) -> Play:
    """The job ends before its run does, and has brought it a step further."""

    def play(job: Job) -> JobEnd:
        job.result_dir.mkdir(exist_ok=True)
        with Journal(job.result_dir / "journal.jsonl", lambda: 1.0) as journal:
            journal.append(StopAsked("somebody") if journal.entries else created())
        return JobEnd(status, "killed")

    return play


def begins(job: Job) -> None:
    job.result_dir.mkdir(exist_ok=True)
    with (job.result_dir / "journal.jsonl").open("a") as file:
        file.write("{}\n")


class ScriptedHost:
    """`plays`: what the jobs of a run do, one after the other; `room_for`: jobs at once. A run that no play
    is given for ends well. `held`: runs that go on until they are taken out of it or stopped."""

    def __init__(self, plays: Mapping[str, list[Play]] | None = None, room_for: int = 99) -> None:
        self.plays = {run: list(given) for run, given in (plays or {}).items()}
        self.room_for = room_for
        self.held: set[str] = set()
        self.fits = True
        self.leases: dict[str, Lease] = {}
        self.started: list[str] = []
        self.stopped: list[str] = []
        self.commands: dict[str, list[tuple[str, ...]]] = {}
        self.most = 0
        self._running: dict[str, Job] = {}
        self._ended: dict[str, JobEnd] = {}
        self._changed = asyncio.Event()
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
        self.change()

    async def room(self) -> None:
        await self._until_changed()

    def start(self, job: Job) -> None:
        folder = str(job.folder)
        with self._lock:
            if folder in self._running or folder in self._ended:
                return
            assert job.lease.id in self.leases
            self.started.append(f"{job.run}/{job.folder.name[-2:]}")
            self.commands.setdefault(job.run, []).append(job.command)
            self._running[folder] = job
        self.change()

    def state(self, job_folder: str) -> JobState:
        if job_folder in self._running:
            return "running"
        return "ended" if job_folder in self._ended else "not_started"

    async def ended(self, job_folder: str) -> JobEnd:
        while self._running.get(job_folder) is not None and self._running[job_folder].run in self.held:
            await self._until_changed()
        if job_folder not in self._ended:
            job = self._running.pop(job_folder)
            given = self.plays.get(job.run, [])
            self._ended[job_folder] = (given.pop(0) if given else ends())(job)
        return self._ended[job_folder]

    def stop(self, job_folder: str) -> None:
        job = self._running.get(job_folder)
        if job is not None:
            self.stopped.append(job.run)
            self.plays[job.run] = [ends("cancelled", "stopped", 130)]
            self.held.discard(job.run)
            self.change()

    def let_end(self, run: str) -> None:
        self.held.discard(run)
        self.change()

    def change(self) -> None:
        self._loop.call_soon_threadsafe(self._changed.set)

    async def _until_changed(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def running(self) -> set[str]:
        return {job.run for job in self._running.values()}


def folder_of(path: Path) -> Path:
    path.mkdir()
    return path
