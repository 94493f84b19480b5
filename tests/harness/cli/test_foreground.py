"""What a person sees of something at work in this terminal when they press Ctrl-C."""

import asyncio
import errno
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import typer

from harness.agent import approval
from harness.agent.policies import PATIENCE_IN_SWEEP_S
from harness.cli import foreground
from harness.cli.progress import Lines
from harness.cli.run import held
from harness.environment import LEASED
from harness.journal.events import Checked, Intent, PersonAsked
from harness.state import Verdict
from tests.harness.agent.world import World, launch, new_experiment


class Idle(foreground.Foreground):
    """Works until it is let go of; Ctrl-C is pressed as often as `presses` says."""

    QUESTION = "go on watching? "
    LET_GO: ClassVar = dict.fromkeys((signal.SIGTERM, signal.SIGHUP, signal.SIGINT), 1)
    REPORT = "report.html"
    presses = 2

    async def work(self) -> Verdict:
        for _ in range(self.presses):
            self._on_ctrl_c()
        await asyncio.sleep(60)
        raise AssertionError

    def was_let_go(self, status: int) -> str:
        return f"let go with {status}"


def test_what_goes_on_when_it_is_let_go_of_or_a_stop_ends_a_hold_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = new_experiment(tmp_path / "run", World([]))
    assert "training" not in foreground.RunForeground(experiment).was_let_go(130)
    launch(experiment)
    assert "the training goes on" in foreground.RunForeground(experiment).was_let_go(130)
    for error, said in ((InterruptedError, "A stop was asked for"), (OSError, "Correct that")):
        with pytest.raises(typer.Exit), held(experiment, "7f3a", OSError):
            raise error(errno.EACCES, "no permission", "there")
        assert f"there: no permission. {said}: `harness " in capsys.readouterr().err


async def test_a_run_of_a_sweep_keeps_its_slot_while_it_can_do_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LEASED, "")
    monkeypatch.setattr(foreground, "LOOK_FOR_QUESTIONS_S", 0.0)
    patience = dict[str, float]()
    monkeypatch.setattr(foreground, "make_policy", lambda *given: patience.update(model=given[2]))
    experiment = new_experiment(tmp_path / "run", World([]))
    shown = foreground.RunForeground(experiment)
    shown._policy()
    assert patience["model"] == PATIENCE_IN_SWEEP_S
    experiment.record(Intent("ask_person"))
    experiment.record(PersonAsked("May it be lower?", ("a", "b"), "b", until=experiment.clock() + 60))
    experiment.record(Intent("check"))
    looking = asyncio.ensure_future(shown._pass_on_questions())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not looking.done()
    experiment.record(Checked(can_run=True))
    experiment.record(Intent("wait"))
    await asyncio.wait_for(looking, 20.0)
    assert shown._let_go_status == approval.GIVES_WAY


def test_d27_the_answer_to_a_second_ctrl_c_is_on_a_line_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ask(prompt: str, on_answer: Callable[..., None], *arguments: Any) -> None:
        print(prompt, end="^C", flush=True)

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(foreground, "ask_for", ask)
    idle = Idle(tmp_path, Lines(lambda: ()), lambda by: None)
    assert asyncio.run(idle.run()) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["go on watching? ^C", "let go with 0"]
