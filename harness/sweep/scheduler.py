"""The queue of a sweep: starts a run the moment a slot is free, follows every run to its end, then reports.

In: a `Sweep` and a `Host`. Out: how it ended. Every decision is in the journal before it is acted on, so the
scheduler can be killed at any instant: the next one finds each job by its number, asks the host where it
stands, and goes on. It only ever waits to be woken: by the end of a job, by room on the machine, by a person.
"""

import asyncio
from asyncio import FIRST_COMPLETED
from collections.abc import Callable, Mapping
from typing import Any

from harness.journal.events import Held, StopAsked
from harness.machine.disk import MIN_FREE_BYTES, in_words
from harness.state import COUNTING, Verdict
from harness.sweep.hosts import Host, Lease, NeverFitsError
from harness.sweep.reporting import SUCCESSES, Reporter, finish
from harness.sweep.run_supervisor import RunSupervisor
from harness.sweep.state import CanaryPassed, Closing, RunLeftOut, RunStarted, RunState, Sweep, usual_s
from monitors.resources import disk_free

ASK_AGAIN_S = 2.0
LOOK_AGAIN_S = 15.0
PAUSE_S = 10.0


class Scheduler:
    """Takes one sweep to its end, or until it is cancelled; then what runs goes on running."""

    def __init__(
        self,
        sweep: Sweep,
        host: Host,
        environment: Callable[[], Mapping[str, str]],
        reporter: Reporter | None,
        pause_s: float = PAUSE_S,
    ) -> None:
        """`environment`: gives what all jobs get, asked for when one is started. `reporter`: builds the
        report at the end, None for none. `pause_s`: between jobs that bring a run no further."""
        self.sweep = sweep
        self._host = host
        self._woken = asyncio.Event()
        self._supervisor = RunSupervisor(sweep, host, environment, pause_s)
        self._supervisor.slot_freed = self._woken
        self._reporter = reporter
        self._followed: dict[str, asyncio.Task[None]] = {}
        self._needs_room = False

    async def run(self) -> Verdict:
        """Take the sweep to its finish and return how it ended. Raises HostError and OSError for what a
        person must correct; what runs goes on, and the next scheduler goes on with it."""
        try:
            await self._take_over()
            while self._is_unfinished():
                await self._start_what_fits()
                await self._wait()
        finally:
            await self._let_go()
        return await finish(self.sweep, self._reporter)

    def ask_to_stop(self, by: str) -> None:
        """A person wants the sweep to end: what runs is stopped in good order, nothing else is started."""
        if self.sweep.state.stop_asked is None and self.sweep.state.verdict is None:
            self.sweep.record(StopAsked(by))
        self._woken.set()

    async def _take_over(self) -> None:
        """Go on where the last scheduler was: follow what runs, and judge the first that has ended."""
        for run in self.sweep.state.runs.values():
            if run.status == "running":
                self._follow(run.name)
            elif run.status == "ended" and not (self.sweep.state.checked and self.sweep.state.has_metric):
                await self._judge(run.name)

    # --- what to do next --------------------------------------------------------------------------------

    def _is_unfinished(self) -> bool:
        """True while something runs or is still to be started; gives up what will not be started any more."""
        self._close_if_need_be()
        state = self.sweep.state
        why = state.stop_asked and f"stopped by {state.stop_asked}"
        if why or state.closing:
            for run in state.of("queued"):
                self.sweep.record(RunLeftOut(run.name, why or state.closing))
        return bool(self._followed or self._next() is not None)

    def _close_if_need_be(self) -> None:
        state, left = self.sweep.state, self._left_s()
        if state.closing or state.stop_asked or left is None or not state.of("queued"):
            return
        takes = usual_s(state.compared)
        if left <= 0:
            self.sweep.record(Closing("the budget of the sweep is used up", budget=True))
        elif takes is not None and takes > left:
            words = f"a run takes about {takes:.0f} s, and {left:.0f} s of the budget are left"
            self.sweep.record(Closing(words, budget=True))

    def _left_s(self) -> float | None:
        deadline = self.sweep.state.deadline_at
        return deadline - self.sweep.clock() if deadline is not None else None

    def _next(self) -> RunState | None:
        """The run to be started next; None while there is none to start, or it must wait for the first."""
        state = self.sweep.state
        if state.stop_asked or state.closing or (not state.checked and state.of("running")):
            return None
        return next(iter(state.of("queued")), None)

    async def _start_what_fits(self) -> None:
        """Start runs until the slots, the machine or the queue is used up."""
        self._needs_room = False
        self._hold()
        while self._has_slot() and (run := self._next()) is not None:
            lease = await self._reserve(run)
            if lease is None:
                return
            self.sweep.record(RunStarted(run.name, run.job + 1, lease.id))
            self._follow(run.name, lease)

    def _has_slot(self) -> bool:
        state = self.sweep.state
        return not state.held and len(state.holding_slots) < self.sweep.plan.parallel

    def _hold(self) -> None:
        """Start nothing on a disk that is full: each run would fail at once, and the queue with them."""
        free = disk_free(self.sweep.dir)
        is_full = free < MIN_FREE_BYTES
        why = f"only {in_words(free)} are free on the disk of {self.sweep.dir}" if is_full else ""
        if bool(why) != bool(self.sweep.state.held):
            self.sweep.record(Held(why))

    async def _reserve(self, run: RunState) -> Lease | None:
        try:
            lease = await self._supervisor.reserve(run.name, run.job + 1)
        except NeverFitsError as error:
            if any(started.job for started in self.sweep.state.runs.values()):
                raise  # it did fit: a person brings the machine back, or resumes on another one
            self.sweep.record(Closing(str(error)))
            return None
        self._needs_room = lease is None
        return lease

    # --- what runs ----------------------------------------------------------------------------------------

    def _follow(self, run: str, lease: Lease | None = None) -> None:
        self._followed[run] = asyncio.ensure_future(self._to_its_end(run, lease))

    async def _to_its_end(self, run: str, lease: Lease | None) -> None:
        """Follow a run to its end; the canary, or the first run in its place, opens the way for the rest."""
        await self._supervisor.follow(run, lease)
        if self.sweep.state.checked and self.sweep.state.has_metric:
            self._woken.set()  # its slot is free
        await self._judge(run)
        self._woken.set()

    async def _judge(self, run: str) -> None:
        """Record what an ended run came to; after the first one open the way for the rest, or close the
        sweep: what failed here, or was not measured, would be so everywhere."""
        ended = self.sweep.state.runs[run]
        if ended.outcome in COUNTING:
            await self._supervisor.measure(run)
        if self.sweep.state.checked or self.sweep.state.closing:
            return
        if ended.outcome in SUCCESSES:
            self.sweep.record(CanaryPassed(f"{run}: {ended.outcome}"))
        else:
            what = "the canary" if ended.is_canary else f"the first run, {run},"
            self.sweep.record(Closing(f"{what} {ended.outcome}: {ended.reason}"))

    async def _wait(self) -> None:
        """Until a run ended, there is room, a person wants something, or the budget is used up; without a
        canary, also until the first run has shown its first value."""
        state = self.sweep.state
        if not self._followed and not self._needs_room and not state.held:
            return
        others: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._woken.wait())]
        if self._needs_room:
            others.append(asyncio.ensure_future(self._host.room()))
        first = next((run.name for run in state.of("running") if not (state.checked or run.is_canary)), None)
        if first is not None:
            others.append(asyncio.ensure_future(self._supervisor.first_value(first)))
        stopping = state.stop_asked is not None
        left = self._left_s() if state.of("queued") else None
        ends = [*([ASK_AGAIN_S] if stopping else []), *([LOOK_AGAIN_S] if state.held else [])]
        ends += [max(0.0, left)] if left is not None else []
        for run in state.of("running") if stopping else ():
            await asyncio.to_thread(self._host.stop, str(self.sweep.folder.job(run.name, run.job)))
        try:
            waited_for = {*self._followed.values(), *others}
            await asyncio.wait(waited_for, timeout=min(ends, default=None), return_when=FIRST_COMPLETED)
            if first in {run.name for run in self.sweep.state.of("running")} and others[-1].done():
                what = self.sweep.plan.metric or "step"
                self.sweep.record(CanaryPassed(f"the first {what} of {first}"))
        finally:
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
        self._woken.clear()
        for name in [name for name, task in self._followed.items() if task.done()]:
            self._followed.pop(name).result()

    async def _let_go(self) -> None:
        for task in self._followed.values():
            task.cancel()
        await asyncio.gather(*self._followed.values(), return_exceptions=True)
