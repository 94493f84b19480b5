"""One sweep in this terminal: its scheduler, its live display, and what signals and Ctrl-C mean.

SIGUSR1 (`harness stop`) ends the sweep. SIGTERM lets go of it: what runs goes on, `harness resume` goes on
with the rest. Ctrl-C and a lost terminal put the scheduler into a tmux session of its own, so that the sweep
goes on by itself; at a terminal Ctrl-C first asks whether it is to be stopped instead.
"""

import asyncio
import contextlib
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from harness.cli.console import ask_for, console, fail, read_line
from harness.cli.run import let_go
from harness.cli.sweep_display import display_for
from harness.journal.events import Detached, LetGo, StopAsked
from harness.sweep import snapshot
from harness.sweep.events import SweepReported
from harness.sweep.hosts import HostError
from harness.sweep.hosts.local import LocalHost
from harness.sweep.plan import SweepError
from harness.sweep.reporting import report
from harness.sweep.scheduler import Scheduler
from harness.sweep.sweep import Sweep
from monitors.tmux import Session, TmuxError

if TYPE_CHECKING:
    from harness.state import Verdict

QUESTION = (
    "Ctrl-C: [d]etach and let the sweep go on by itself, [s]top it and report, [Enter] go on watching? "
)


def carry_on_sweep(folder: Path, stopped_by: str | None = None) -> NoReturn:
    """Run the sweep in this folder, and end with its exit status. `stopped_by`: who wants it to end."""
    sweep = Sweep.open(folder)
    if stopped_by is not None and sweep.state.finished_at is None:
        sweep.record(StopAsked(stopped_by))
    run_here(sweep)


def run_here(sweep: Sweep) -> NoReturn:
    """Run a sweep that this process owns, and end with its exit status."""
    way_on = f"what runs goes on running, and `harness resume {sweep.dir}` goes on from here"
    try:
        environment = partial(snapshot.environment, sweep.folder)
        foreground = SweepForeground(sweep, Scheduler(sweep, LocalHost(), environment, report))
        status = asyncio.run(foreground.run())
        if foreground.hands_over:
            let_go(sweep, sweep.state.sweep_id)
    except (OSError, HostError, SweepError) as error:
        fail(f"{error}. Fix: correct that; {way_on}", 1)
    except typer.Exit:
        raise
    except Exception:
        typer.echo(f"harness: this is a defect of the harness; {way_on}", err=True)
        raise
    finally:
        with contextlib.suppress(OSError):  # detaching has closed it
            sweep.close()
    raise typer.Exit(status)


class SweepForeground:
    """Runs a sweep to its end, or until it is let go of. `hands_over`: another process is to be started."""

    def __init__(self, sweep: Sweep, scheduler: Scheduler) -> None:
        self.sweep = sweep
        self.hands_over = False
        self._scheduler = scheduler
        self._display = display_for(sweep)
        self._is_asking = False
        self._status = 0
        self._task: asyncio.Task[Verdict] | None = None

    async def run(self) -> int:
        """The exit status of the sweep's outcome, 0 when it goes on by itself, 143 after SIGTERM."""
        self._task = asyncio.ensure_future(self._scheduler.run())
        listen = asyncio.get_running_loop().add_signal_handler
        listen(signal.SIGUSR1, self._scheduler.ask_to_stop, "`harness stop`")
        listen(signal.SIGTERM, self._let_go, 128 + signal.SIGTERM, False)
        listen(signal.SIGHUP, self._let_go, 0, True)
        listen(signal.SIGINT, self._on_ctrl_c)
        display = asyncio.ensure_future(self._display.run())
        try:
            verdict = await self._task
        except asyncio.CancelledError:
            self.sweep.record(LetGo(hands_over=self.hands_over))
            if not self.hands_over:
                words = f"let go; what runs goes on. `harness resume {self.sweep.dir}` goes on with the rest"
                console().print(words, markup=False)
            return self._status
        finally:
            display.cancel()
            with contextlib.suppress(OSError, ValueError):  # who reads our output does not decide how it ends
                self._display.close()
        for detached in self.sweep.journal.of(Detached):  # sessions that its schedulers had to themselves
            with contextlib.suppress(TmuxError):
                if (session := Session.find(detached.session)) is not None:
                    session.kill()
        self._say_how_it_ended(verdict)
        return verdict.outcome.exit_code

    def _let_go(self, status: int, hands_over: bool) -> None:
        self._status, self.hands_over = status, hands_over
        if self._task is not None:
            self._task.cancel()

    def _on_ctrl_c(self) -> None:
        if self._is_asking or not sys.stdin.isatty():
            self._let_go(0, True)
            return
        self._is_asking = True
        self._display.pause()
        ask_for(f"\n{QUESTION}", self._on_answer)

    def _on_answer(self) -> None:
        answer = read_line().strip().lower()
        self._is_asking = False
        if answer.startswith("d"):
            self._let_go(0, True)
            return
        if answer.startswith("s"):
            self._scheduler.ask_to_stop("Ctrl-C")
        self._display.go_on()

    def _say_how_it_ended(self, verdict: "Verdict") -> None:
        out, reported = console(), self.sweep.state.reported or SweepReported()
        style = "bold green" if verdict.outcome.exit_code == 0 else "bold yellow"
        out.print(f"\n{verdict.outcome.value}: {verdict.reason}", style=style, markup=False)
        last = f"report: {self.sweep.dir / 'sweep_report.html'}"
        if reported.error:
            last = f"the report could not be built ({reported.error}): `harness report {self.sweep.dir}`"
        for line in (*(f"  {line}" for line in reported.headline), last):
            out.print(line, markup=False)
