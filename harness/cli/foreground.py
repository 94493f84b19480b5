"""One run in this terminal: the loop, its live display, and what signals and Ctrl-C mean.

SIGUSR1 (`harness stop`) ends the training. SIGTERM and SIGHUP let go of it: it trains on, `harness resume`
goes on. Ctrl-C asks which of the two is meant; without a terminal, it lets go.
"""

import asyncio
import contextlib
import signal
import sys
from typing import TYPE_CHECKING

from harness.agent import approval, loop
from harness.agent.executor import Executor
from harness.agent.policies import make_policy, playbook
from harness.cli.console import ask_for, console, read_line, take_back
from harness.cli.progress import Progress, progress_for
from harness.journal.events import CopyKept, LetGo, Reported

if TYPE_CHECKING:
    from harness.experiment import Experiment
    from harness.observation import Policy
    from harness.state import Verdict

LOOK_FOR_QUESTIONS_S = 0.5
QUESTION = "Ctrl-C: [d]etach and leave it training, [s]top it and write the report, [Enter] go on watching? "


class Foreground:
    """Runs an experiment to its end, or until it is let go of; `run` returns the exit status."""

    def __init__(self, experiment: "Experiment") -> None:
        self.experiment = experiment
        self.executor = Executor(experiment)
        self.progress: Progress = progress_for(self.executor)
        self._asking = False
        self._put_to_person: approval.OpenQuestion | None = None
        self._let_go_status = 0
        self._task: asyncio.Task[Verdict] | None = None

    async def run(self) -> int:
        """Carry the experiment on; exit status of its outcome, 0 after a detach, 143 after SIGTERM."""
        self._task = asyncio.ensure_future(loop.run(self.executor, self._policy()))
        self._listen()
        display = asyncio.ensure_future(self.progress.run())
        questions = asyncio.ensure_future(self._pass_on_questions())
        try:
            verdict = await self._task
        except asyncio.CancelledError:
            if self.experiment.state.verdict is None:
                self.experiment.record(LetGo(self._let_go_status))
            self.progress.close()
            folder = self.experiment.dir
            console().print(
                f"let go; the training goes on. `harness resume {folder}` watches it again", markup=False
            )
            return self._let_go_status
        finally:
            display.cancel()
            questions.cancel()
            with contextlib.suppress(OSError, ValueError):  # who reads our output does not decide how it ends
                self.progress.close()
            self.executor.close()
        self._say_how_it_ended(verdict)
        return verdict.outcome.exit_code

    def _policy(self) -> "Policy":
        """The policy of the run's options; where its model cannot be had any more, the playbook goes on."""
        from harness.providers.settings import ConfigurationError

        try:
            return make_policy(self.experiment, self.executor.interrupted)
        except ConfigurationError as error:
            console().print(f"{error}; going on without a language model", markup=False)
            return playbook(self.experiment, str(error))

    def _listen(self) -> None:
        events = asyncio.get_running_loop()
        events.add_signal_handler(signal.SIGUSR1, self.executor.ask_to_stop, "`harness stop`")
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
        ask_for(f"\n{QUESTION}", self._on_answer)

    async def _pass_on_questions(self) -> None:
        """Put what waits for approval to the person here; others answer with `harness approve`."""
        shown = 0
        while True:
            question = approval.open_question(self.experiment.journal.entries)
            if self._put_to_person is not None and question != self._put_to_person:
                self._take_back()
            if question is not None and question.number != shown and not self._asking:
                shown = question.number
                self._put(question)
            await asyncio.sleep(LOOK_FOR_QUESTIONS_S)

    def _put(self, question: approval.OpenQuestion) -> None:
        if not sys.stdin.isatty():
            print(f"waits for approval: {question.text} (harness approve {self.experiment.dir})", flush=True)
            return
        self._asking, self._put_to_person = True, question
        self.progress.pause()
        ask_for(f"\nApprove {question.text}? [y]es, [n]o: ", self._on_approval, question)

    def _on_approval(self, question: approval.OpenQuestion) -> None:
        line = read_line()
        word = line.strip().lower()
        if word in ("y", "yes", "n", "no"):
            given: approval.Answer = "yes" if word.startswith("y") else "no"
            approval.answer(self.experiment.dir, question, given, "the run's own terminal")
            self._take_back()
        elif line:
            ask_for("Please answer y or n: ", self._on_approval, question)
        else:  # the terminal is gone; `harness approve` answers
            self._take_back()

    def _take_back(self) -> None:
        """The question at this terminal is settled, perhaps by an answer from elsewhere."""
        take_back()
        self._asking, self._put_to_person = False, None
        self.progress.go_on()

    def _on_answer(self) -> None:
        answer = read_line().strip().lower()
        self._asking = False
        if answer.startswith("s"):
            self.executor.ask_to_stop("Ctrl-C")
        elif answer.startswith("d"):
            self._let_go(0)
            return
        self.progress.go_on()

    def _say_how_it_ended(self, verdict: "Verdict") -> None:
        out, folder = console(), self.experiment.dir
        reported = self.experiment.state.reported or Reported()
        first, *others = reported.headline or [f"{verdict.outcome.value}: {verdict.reason}"]
        style = "bold green" if verdict.outcome.exit_code == 0 else "bold yellow"
        out.print(f"\n{first}", style=style, markup=False)
        for line in others:
            out.print(f"  {line}", markup=False)
        report = f"report: {folder / 'report.html'}"
        if reported.error:
            report = f"the report could not be built ({reported.error}): `harness report {folder}`"
        out.print(report, markup=False)
        for kept in self.experiment.journal.of(CopyKept):
            out.print(f"files of the patched code were left in {kept.folder}", markup=False)
