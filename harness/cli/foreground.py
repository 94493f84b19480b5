"""One run in this terminal: the loop, its live display, and what signals and Ctrl-C mean.

SIGUSR1 (`harness stop`) ends the training. SIGTERM and SIGHUP let go of it: it trains on, `harness resume`
goes on. Ctrl-C asks which of the two is meant; where nobody can be asked, it lets go.
"""

import asyncio
import contextlib
import signal
import sys
from typing import TYPE_CHECKING

from harness.agent import loop
from harness.agent.hands import Hands, Options
from harness.agent.playbook import Playbook
from harness.cli.console import console
from harness.cli.progress import Progress, progress_for

if TYPE_CHECKING:
    from harness.experiment import Experiment
    from harness.state import Verdict

QUESTION = "Ctrl-C: [d]etach and leave it training, [s]top it and write the report, [Enter] go on watching? "


class Foreground:
    """Runs an experiment to its end, or until it is let go of; `run` returns the exit status."""

    def __init__(self, experiment: "Experiment", keep_session: bool) -> None:
        self.experiment = experiment
        self.hands = Hands(experiment, Options(keep_session=keep_session))
        self.progress: Progress = progress_for(self.hands)
        self._asking = False
        self._let_go_status = 0
        self._task: asyncio.Task[Verdict] | None = None

    async def run(self) -> int:
        """Carry the experiment on; exit status of its outcome, 0 after a detach, 143 after SIGTERM."""
        self._task = asyncio.ensure_future(loop.run(self.hands, Playbook()))
        self._listen()
        display = asyncio.ensure_future(self.progress.run())
        try:
            verdict = await self._task
        except asyncio.CancelledError:
            if self.experiment.state.verdict is None:
                self.experiment.record("let_go", status=self._let_go_status)
            self.progress.close()
            folder = self.experiment.dir
            console().print(
                f"let go; the training goes on. `harness resume {folder}` watches it again", markup=False
            )
            return self._let_go_status
        finally:
            display.cancel()
            with contextlib.suppress(OSError, ValueError):  # who reads our output does not decide how it ends
                self.progress.close()
            self.hands.close()
        self._say_how_it_ended(verdict)
        return verdict.outcome.exit_code

    def _listen(self) -> None:
        events = asyncio.get_running_loop()
        events.add_signal_handler(signal.SIGUSR1, self.hands.ask_to_stop, "`harness stop`")
        events.add_signal_handler(signal.SIGTERM, self._let_go, 128 + signal.SIGTERM)
        events.add_signal_handler(signal.SIGHUP, self._let_go, 128 + signal.SIGHUP)
        events.add_signal_handler(signal.SIGINT, self._on_ctrl_c)

    def _let_go(self, status: int) -> None:
        self._let_go_status = status
        if self._task is not None:
            self._task.cancel()

    def _on_ctrl_c(self) -> None:
        if self._asking or not sys.stdin.isatty():
            self._let_go(0 if self._asking else 128 + signal.SIGINT)
            return
        self._asking = True
        self.progress.pause()
        print(f"\n{QUESTION}", end="", flush=True)
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._on_answer)

    def _on_answer(self) -> None:
        answer = sys.stdin.readline().strip().lower()
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        self._asking = False
        if answer.startswith("s"):
            self.hands.ask_to_stop("Ctrl-C")
        elif answer.startswith("d"):
            self._let_go(0)
            return
        self.progress.go_on()

    def _say_how_it_ended(self, verdict: "Verdict") -> None:
        out = console()
        reported = self.experiment.state.reported or {}
        first, *others = reported.get("headline") or [f"{verdict.outcome.value}: {verdict.reason}"]
        out.print(
            f"\n{first}",
            style="bold green" if verdict.outcome.exit_code == 0 else "bold yellow",
            markup=False,
        )
        for line in others:
            out.print(f"  {line}", markup=False)
        if "error" in reported:
            out.print(
                f"the report could not be built ({reported['error']}): "
                f"`harness report {self.experiment.dir}`",
                markup=False,
            )
        else:
            out.print(f"report: {self.experiment.dir / 'report.html'}", markup=False)
