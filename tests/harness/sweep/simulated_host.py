"""A machine with so many slots, on which a job is a timer instead of a process: for tests of many runs, and
for the scheduler's benchmark.

A job that is started "runs" for as long as it is told, then leaves the files that a run leaves: finish.flag
and result.json. What happened, and when, is kept.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from harness.sweep.hosts import Job, JobEnd, JobState, Lease, Needs


@dataclass
class Life:
    """One job. Times are those of `time.perf_counter`; `done` is set at its end."""

    run: str
    started_at: float
    done: asyncio.Event
    ended_at: float | None = None


class SimulatedHost:
    """Made inside the event loop that the jobs run on. `lives`: by job folder, in the order of their start.
    `twice`: jobs that were started again although they had been. `most`: jobs that ran at once."""

    def __init__(self, slots: int, seconds: Callable[[str], float]) -> None:
        """`seconds`: how long the job of this run takes."""
        self._slots = slots
        self._seconds = seconds
        self._held: dict[str, Lease] = {}
        self._lock = threading.Lock()
        self._room = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._runs_now = 0
        self.lives: dict[str, Life] = {}
        self.twice: list[str] = []
        self.most = 0

    def reserve(self, lease_id: str, needs: Needs, job_folder: str, result_dir: str) -> Lease | None:
        with self._lock:
            if lease_id not in self._held and len(self._held) >= self._slots:
                return None
            return self._held.setdefault(lease_id, Lease(lease_id))

    def release(self, lease_id: str) -> None:
        with self._lock:
            self._held.pop(lease_id, None)
        self._loop.call_soon_threadsafe(self._room.set)

    async def room(self) -> None:
        self._room.clear()
        await self._room.wait()

    def start(self, job: Job) -> None:
        with self._lock:
            folder = str(job.folder)
            if folder in self.lives:
                self.twice.append(folder)
                return
            assert job.lease.id in self._held, f"{job.run} was started without its lease"
            self.lives[folder] = Life(job.run, time.perf_counter(), asyncio.Event())
            self._runs_now += 1
            self.most = max(self.most, self._runs_now)
        self._loop.call_soon_threadsafe(self._loop.call_later, self._seconds(job.run), self._end, job)

    def _end(self, job: Job) -> None:
        job.result_dir.mkdir()
        facts = [{"id": "key/pass_rate_end", "value": 0.5}]
        (job.result_dir / "result.json").write_text(json.dumps({"facts": facts}))
        flag = {"outcome": "succeeded", "reason": "the training came to its end", "exit_code": 0}
        (job.result_dir / "finish.flag").write_text(json.dumps(flag))
        with self._lock:
            self._runs_now -= 1
        life = self.lives[str(job.folder)]
        life.ended_at = time.perf_counter()
        life.done.set()

    def state(self, job_folder: str) -> JobState:
        life = self.lives.get(job_folder)
        if life is None:
            return "not_started"
        return "running" if life.ended_at is None else "ended"

    async def ended(self, job_folder: str) -> JobEnd:
        await self.lives[job_folder].done.wait()
        return JobEnd(0, "")

    def stop(self, job_folder: str) -> None:
        raise NotImplementedError("nobody stops a simulated job")
