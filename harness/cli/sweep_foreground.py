"""One sweep in this terminal. SIGUSR1 (`harness stop`) ends it, SIGTERM lets go of it; Ctrl-C and a lost
terminal put the scheduler into a tmux session of its own, so that the sweep goes on by itself."""

import asyncio
import contextlib
import signal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NoReturn

import typer

from harness.cli.foreground import Foreground
from harness.cli.run import held, let_go
from harness.cli.sweep_display import display_for
from harness.journal.events import Detached, LetGo, StopAsked
from harness.sweep import snapshot
from harness.sweep.hosts import HostError
from harness.sweep.hosts.local import LocalHost
from harness.sweep.plan import SweepError
from harness.sweep.reporting import report
from harness.sweep.scheduler import Scheduler
from harness.sweep.state import Sweep, SweepReported
from monitors.tmux import Session, TmuxError

if TYPE_CHECKING:
    from harness.state import Verdict


def carry_on_sweep(folder: Path, stopped_by: str | None = None) -> NoReturn:
    """Run the sweep in this folder, and end with its exit status. `stopped_by`: who wants it to end."""
    sweep = Sweep.open(folder)
    if stopped_by is not None and sweep.state.finished_at is None:
        sweep.record(StopAsked(stopped_by))
    run_here(sweep)


def run_here(sweep: Sweep) -> NoReturn:
    """Run a sweep that this process owns, and end with its exit status."""
    with held(sweep, sweep.state.sweep_id, OSError, HostError, SweepError):
        environment = partial(snapshot.environment, sweep.folder)
        foreground = SweepForeground(sweep, Scheduler(sweep, LocalHost(), environment, report))
        status = asyncio.run(foreground.run())
        if foreground.hands_over:
            let_go(sweep, sweep.state.sweep_id)
    raise typer.Exit(status)


class SweepForeground(Foreground):
    """Runs a sweep to its end, or until it is let go of."""

    QUESTION = (
        "Ctrl-C: [d]etach and let the sweep go on by itself, [s]top it and report, [Enter] go on watching? "
    )
    LET_GO: ClassVar = {signal.SIGTERM: 128 + signal.SIGTERM, signal.SIGHUP: 0, signal.SIGINT: 0}
    REPORT = "sweep_report.html"

    def __init__(self, sweep: Sweep, scheduler: Scheduler) -> None:
        super().__init__(sweep.dir, display_for(sweep), scheduler.ask_to_stop)
        self.sweep = sweep
        self._scheduler = scheduler

    async def work(self) -> "Verdict":
        return await self._scheduler.run()

    def was_let_go(self, status: int) -> str:
        self.hands_over = status == 0
        self.sweep.record(LetGo(hands_over=self.hands_over))
        words = f"let go; what runs goes on. `harness resume {self.sweep.dir}` goes on with the rest"
        return "" if self.hands_over else words

    def said(self, verdict: "Verdict") -> tuple[list[str], str]:
        for detached in self.sweep.journal.of(Detached):  # sessions that its schedulers had to themselves
            with contextlib.suppress(TmuxError):
                if (session := Session.find(detached.session)) is not None:
                    session.kill()
        reported = self.sweep.state.reported or SweepReported()
        return [f"{verdict.outcome.value}: {verdict.reason}", *reported.headline], reported.error
