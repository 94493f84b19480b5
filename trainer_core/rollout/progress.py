"""Who is waited for: the episodes of a batch as they run, for a line that a person reads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainer_core.types import Task

if TYPE_CHECKING:
    from trainer_core.gateway import OpenEpisode

_NAMED = 3


@dataclass
class Running:
    """An episode, or the group of a task that is judged."""

    name: str
    since: float
    opened: OpenEpisode | None = None
    """Of its present try."""
    is_judged: bool = False

    def phase(self, now: float) -> tuple[str, float]:
        """What it does, and for how many seconds."""
        if self.is_judged:
            return "judging", now - self.since
        if self.opened is None or (self.opened.calls == 0 and self.opened.in_flight == 0):
            return "starting", now - self.since
        doing = "calling the model" if self.opened.in_flight else "user code"
        return doing, max(0.0, now - self.opened.last_activity)


class Progress:
    """The episodes of one batch."""

    def __init__(self, total: int, clock: Callable[[], float]) -> None:
        """`clock`: monotonic seconds, the one that `OpenEpisode.last_activity` is read from."""
        self._total = total
        self._clock = clock
        self._running: list[Running] = []
        self._finished = self._failed = self._tokens = 0
        self._told = (clock(), 0)

    def start(self, task: Task, repeat: int | None = None) -> Running:
        """Note that an episode begins; without `repeat`, that the task's group is judged."""
        name = task.task_id if repeat is None else f"{task.task_id}#{repeat}"
        running = Running(name, self._clock(), is_judged=repeat is None)
        self._running.append(running)
        return running

    def end_try(self, running: Running) -> None:
        """Note that a try is over; its tokens stay counted."""
        self._tokens += running.opened.tokens if running.opened is not None else 0
        running.opened = None

    def end(self, running: Running, *, failed: bool = False) -> float:
        """Note that it is over; the seconds it took."""
        self._running.remove(running)
        if not running.is_judged:
            self._finished += not failed
            self._failed += failed
        return self._clock() - running.since

    def line(self) -> str:
        """Counts, tokens per second since the last line, and those that are waited for the longest."""
        now = self._clock()
        tokens = self._tokens + sum(each.opened.tokens for each in self._running if each.opened is not None)
        (before, had), self._told = self._told, (now, tokens)
        rate = (tokens - had) / max(1e-9, now - before)
        playing = sum(not each.is_judged for each in self._running)
        told = (
            f"rollout of {self._total} episodes: {playing} running, {self._finished} finished, "
            f"{self._failed} failed, {rate:,.0f} tokens/s"
        )
        longest = sorted(self._running, key=lambda each: each.since)[:_NAMED]
        waited = ", ".join(_waited(each, now) for each in longest)
        return f"{told}; waiting for {waited}" if waited else told

    async def tell(self, say: Callable[[str], None], every: float) -> None:
        """Say the line again and again, until cancelled."""
        while True:
            await asyncio.sleep(every)
            say(self.line())


def _waited(running: Running, now: float) -> str:
    doing, seconds = running.phase(now)
    return f"{running.name} ({doing} for {seconds:.0f} s, {now - running.since:.0f} s in all)"
