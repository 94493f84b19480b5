"""The news of a sweep, for a file or a pipe: a line when a run starts or ends, and now and then how it all
stands.

In: the sweep's state and standing, each asked for when it is needed. Out: the lines that have become due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from harness.cli.console import duration
from harness.cli.sweep_words import best_so_far, number, one_line, tally
from harness.sweep.state import RunState, SweepState
from harness.sweep.status import SweepStanding

LINE_EVERY_S = 60.0


class News:
    """Remembers what has been told."""

    def __init__(
        self,
        state: Callable[[], SweepState],
        standing: Callable[[], SweepStanding],
        clock: Callable[[], float],
    ) -> None:
        self._state = state
        self._standing = standing
        self._clock = clock
        self._told: dict[str, tuple[str, int]] = {}
        self._closing = ""
        self._stood_at: float | None = None
        self._stood = ""

    def __call__(self) -> Iterable[str]:
        state = self._state()
        lines = [*self._of_runs(state), *self._of_closing(state)]
        is_due = self._stood_at is None or self._clock() - self._stood_at > LINE_EVERY_S
        if not lines and not is_due:
            return []
        now = self._standing()
        if is_due:
            self._stood_at = self._clock()
            lines += self._how_it_stands(now)
        return [f"[{duration(now.elapsed_s):>7}] {one_line(line)}" for line in lines]

    def _how_it_stands(self, now: SweepStanding) -> Iterator[str]:
        left = f"; about {duration(now.left_s)} left" if now.left_s is not None else ""
        best = f"; best so far: {best_so_far(now)}" if now.best is not None else ""
        steps = [run.progress.step or 0 for run in now.runs if run.standing == "running"]
        how = f"{now.phase}: {tally(now)}{best}"
        if (moved := f"{how} {steps}") != self._stood:
            self._stood = moved
            yield f"{how}{left}"

    def _of_runs(self, state: SweepState) -> Iterator[str]:
        for run in state.all_runs:
            name, now = run.run.name, (run.status, run.job)
            if now != self._told.get(name, ("queued", 0)):
                self._told[name] = now
                yield _told(run, state)

    def _of_closing(self, state: SweepState) -> Iterator[str]:
        if state.closing != self._closing:
            self._closing = state.closing
            yield f"no run is started any more: {state.closing}"


def _told(run: RunState, state: SweepState) -> str:
    """What has become of a run."""
    name = run.run.name
    if run.status == "running":
        return f"{name}: started" if run.job == 1 else f"{name}: goes on with job {run.job}"
    if run.status == "not_run":
        return f"{name}: will not run: {run.reason}"
    took = ""
    if run.started_at is not None and run.ended_at is not None:
        took = f" after {duration(run.ended_at - run.started_at)}"
    metric = (state.plan.metric if state.plan is not None else "") or "value"
    value = f", {metric} {number(run.value)}" if run.value is not None else ""
    why = f": {run.reason}" if run.outcome != "succeeded" else ""
    return f"{name}: {run.outcome.replace('_', ' ')}{took}{value}{why}"
