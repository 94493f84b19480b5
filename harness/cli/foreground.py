"""A run, or a sweep, in this terminal: its work, its live display, and what signals and Ctrl-C mean.

SIGUSR1 (`harness stop`) ends a run. SIGTERM lets go of it: it trains on, `harness resume` goes on. A terminal
that is gone (SIGHUP) hands it over to a tmux session of its own. Ctrl-C asks which is meant; without a
terminal, it lets go.
"""

import asyncio
import contextlib
import math
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from harness.agent import approval, holding, loop
from harness.agent.executor import Executor
from harness.agent.policies import PATIENCE_IN_SWEEP_S, make_policy, playbook
from harness.cli.console import ask_for, console, read_line, take_back
from harness.cli.progress import Progress, progress_for
from harness.environment import LEASED, known_secrets
from harness.journal.events import Checked, CopyKept, LetGo, Reported
from harness.outcome import Outcome
from harness.redaction import redact

if TYPE_CHECKING:
    from harness.actions import ProposeNext
    from harness.experiment import Experiment
    from harness.observation import Policy
    from harness.state import Verdict

LOOK_FOR_QUESTIONS_S = 0.5


class Foreground:
    """Something at work in this terminal, until it ends or is let go of; `run` returns the exit status.

    Subclasses do the work, and say how it ended. `LET_GO`: the exit status after each signal that lets go.
    `hands_over`: another process is to be started that goes on.
    """

    QUESTION: str
    LET_GO: ClassVar[Mapping[signal.Signals, int]]
    REPORT: str

    def __init__(self, folder: Path, progress: Progress, ask_to_stop: Callable[[str], None]) -> None:
        self.dir = folder
        self.progress = progress
        self._ask_to_stop = ask_to_stop
        self._asking = False
        self._let_go_status = 0
        self.hands_over = False
        self._task: asyncio.Task[Verdict] | None = None

    async def work(self) -> "Verdict":
        """Do it to its end; cancelled when it is let go of."""
        raise NotImplementedError

    def was_let_go(self, status: int) -> str:
        """Record that it was let go of with this exit status; what to tell the person."""
        raise NotImplementedError

    def said(self, verdict: "Verdict") -> tuple[list[str], str]:
        """The lines that say how it ended, and why the report could not be built."""
        raise NotImplementedError

    async def run(self) -> int:
        """Exit status of the outcome, or of having let go."""
        self._task = asyncio.ensure_future(self.work())
        self._listen()
        display = asyncio.ensure_future(self.progress.run())
        try:
            verdict = await self._task
        except asyncio.CancelledError:
            told = self.was_let_go(self._let_go_status)
            with contextlib.suppress(OSError, ValueError):  # the terminal may be gone
                self.progress.close()
                if told:
                    console().print(told)
            return self._let_go_status
        finally:
            display.cancel()
            with contextlib.suppress(OSError, ValueError):  # who reads our output does not decide how it ends
                self.progress.close()
        self._say_how_it_ended(verdict)
        return verdict.outcome.exit_code

    def _listen(self) -> None:
        events = asyncio.get_running_loop()
        events.add_signal_handler(signal.SIGUSR1, self._ask_to_stop, "`harness stop`")
        events.add_signal_handler(signal.SIGTERM, self._let_go, self.LET_GO[signal.SIGTERM])
        events.add_signal_handler(signal.SIGINT, self._on_ctrl_c)

        def hang_up(*_: object) -> None:
            if not events.is_closed():
                events.call_soon_threadsafe(self._hang_up)

        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as under nohup
            signal.signal(signal.SIGHUP, hang_up)  # not the event loop's: it must outlive that

    def _hang_up(self) -> None:
        self.hands_over = True
        self._let_go(self.LET_GO[signal.SIGHUP])

    def _let_go(self, status: int) -> None:
        self._let_go_status = status
        if self._task is not None:
            self._task.cancel()

    def _on_ctrl_c(self) -> None:
        if self._asking:
            print()  # the terminal has shown ^C behind the question
        if self._asking or not sys.stdin.isatty():
            self._let_go(0 if self._asking else self.LET_GO[signal.SIGINT])
            return
        self._asking = True
        self.progress.pause()
        ask_for(f"\n{self.QUESTION}", self._on_answer)

    def _on_answer(self) -> None:
        answer = read_line().strip().lower()
        self._asking = False
        if answer.startswith("d"):
            self._let_go(0)
            return
        if answer.startswith("s"):
            self._ask_to_stop("Ctrl-C")
        self.progress.go_on()

    def _say_how_it_ended(self, verdict: "Verdict") -> None:
        out, known = console(), known_secrets(self.dir)
        (first, *others), error = self.said(verdict)
        style = "bold green" if verdict.outcome is Outcome.SUCCEEDED else "bold yellow"
        out.print(f"\n{redact(first, known)}", style=style)
        for line in others:
            out.print(f"  {redact(line, known)}")
        trouble = f"the report could not be built ({error}): `harness report {self.dir}`"
        out.print(redact(trouble, known) if error else f"report: {self.dir / self.REPORT}")


def _propose(action: "ProposeNext", experiment: "Experiment") -> str:
    from harness.sweep import next_experiment

    return next_experiment.after_run(action, experiment)


def _choices(question: approval.OpenQuestion) -> str:
    options = (f"[{number}] {each}" for number, each in enumerate(question.options, 1))
    return ", ".join(options) or "[y]es, [n]o"


class RunForeground(Foreground):
    """Runs an experiment to its end, or until it is let go of."""

    QUESTION = (
        "Ctrl-C: [d]etach (a training goes on), [s]top it and write the report, [Enter] go on watching? "
    )
    LET_GO: ClassVar = {
        **{signum: 128 + signum for signum in (signal.SIGTERM, signal.SIGINT)},
        signal.SIGHUP: 0,
    }
    REPORT = "report.html"

    def __init__(self, experiment: "Experiment") -> None:
        self.experiment = experiment
        self.executor = Executor(experiment)
        super().__init__(experiment.dir, progress_for(self.executor), self.executor.ask_to_stop)
        self.executor.on_check = self._show_findings
        self.executor.propose = _propose
        self.executor.on_held = lambda why: self._show([why])
        self._shown_findings: set[str] = set()
        self._put_to_person: approval.OpenQuestion | None = None

    async def work(self) -> "Verdict":
        questions = asyncio.ensure_future(self._pass_on_questions())
        try:
            return await holding.carry_through(self.executor, self._loop)
        finally:
            questions.cancel()

    async def _loop(self) -> "Verdict":
        policy = self._policy()
        if trouble := await policy.try_out():
            then = "going on with the playbook, it is asked again when it is needed"
            self._show([f"model not available: {trouble}; {then}"])
        return await loop.run(self.executor, policy)

    async def run(self) -> int:
        try:
            return await super().run()
        finally:
            self.executor.close()

    def was_let_go(self, status: int) -> str:
        self.hands_over &= self.experiment.state.verdict is None
        with contextlib.suppress(OSError):  # a full disk does not keep it
            if self.experiment.state.verdict is None:
                self.experiment.record(LetGo(status, self.hands_over))
        if self.hands_over:
            return "the terminal is gone: the run goes on in a tmux session of its own"
        way_on, trains = f"`harness resume {self.dir}`", self.experiment.state.trains
        return "let go; " + (
            f"the training goes on. {way_on} watches it again" if trains else f"{way_on} goes on"
        )

    def said(self, verdict: "Verdict") -> tuple[list[str], str]:
        reported = self.experiment.state.reported or Reported()
        kept = (
            f"files of the patched code were left in {kept.folder}"
            for kept in self.experiment.journal.of(CopyKept)
        )
        headline = reported.headline or (f"{verdict.outcome.value}: {verdict.reason}",)
        is_said = verdict.outcome is Outcome.CANNOT_RUN  # each problem with how to fix it
        remedies = () if is_said else self.experiment.state.what_to_do
        to_do = [f"{number}. {each.told}" for number, each in enumerate(remedies, start=1)]
        words = self.experiment.state.no_words
        missing = [f"no words of the language model ({words}); `harness narrate {self.dir}` adds them"]
        told = [*headline, *kept, *(missing if words else [])]
        return [*told, *(["what to do:", *to_do] if to_do else [])], reported.error

    def _show_findings(self, checked: Checked) -> None:
        """What the check before a launch found, each once."""
        found = [f"warning: {text}" for text in checked.warnings]
        found += [f"problem: {text}" for text in checked.problems]
        fresh = [line for line in found if line not in self._shown_findings]
        if not fresh:
            return
        self._shown_findings |= set(fresh)
        self._show(fresh)

    def _show(self, lines: list[str]) -> None:
        self.progress.pause()
        for line in lines:
            console().print(redact(line, known_secrets(self.dir)))
        self.progress.go_on()

    def _policy(self) -> "Policy":
        """The policy of the run's options; where its model cannot be had any more, the playbook goes on."""
        from harness.providers.settings import ConfigurationError

        patience_s = PATIENCE_IN_SWEEP_S if LEASED in os.environ else math.inf
        try:
            return make_policy(self.experiment, self.executor.interrupted, patience_s)
        except ConfigurationError as error:
            console().print(f"{error}; going on without a language model")
            return playbook(self.experiment, str(error))

    async def _pass_on_questions(self) -> None:
        """Put what waits for approval to the person here; others answer with `harness approve`."""
        shown = 0
        while True:
            question = approval.open_question(self.experiment.journal.entries)
            if self._put_to_person is not None and question != self._put_to_person:
                self._take_back()
            if question is not None and LEASED in os.environ and self.experiment.state.waits_for_person:
                self._let_go(approval.GIVES_WAY)  # others may have the slot meanwhile
                return
            if question is not None and question.number != shown and not self._asking:
                shown = question.number
                self._put(question)
            await asyncio.sleep(LOOK_FOR_QUESTIONS_S)

    def _put(self, question: approval.OpenQuestion) -> None:
        if not sys.stdin.isatty():
            ways = "\n  ".join(question.commands(self.dir))
            print(f"waits for your answer: {question.text}\n  {ways}", flush=True)
            return
        self._asking, self._put_to_person = True, question
        self.progress.pause()
        ask_for(f"\n{question.text}\n{_choices(question)}: ", self._on_approval, question)

    def _on_approval(self, question: approval.OpenQuestion) -> None:
        line = read_line()
        word = line.strip().lower()
        keys = {str(at): each for at, each in enumerate(question.options, 1)} or {"y": "yes", "n": "no"}
        chosen = keys.get(word, word)
        if chosen in question.choices:
            given = approval.Answer(chosen, "the run's own terminal")
            approval.answer(self.experiment.dir, question.number, given)
            self._take_back()
        elif line:
            ask_for(f"Please answer {_choices(question)}: ", self._on_approval, question)
        else:  # the terminal is gone; `harness approve` answers
            self._take_back()

    def _take_back(self) -> None:
        """The question at this terminal is settled, perhaps by an answer from elsewhere."""
        take_back()
        self._asking, self._put_to_person = False, None
        self.progress.go_on()
