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

from harness.cli import foreground
from harness.cli.progress import Lines
from harness.cli.run import held
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
