"""Detaching into a tmux session whose shell has slow start-up files."""

import time
from collections.abc import Callable
from math import inf
from pathlib import Path
from uuid import uuid4

import pytest
import typer

from harness.cli import run
from tests.harness.agent.world import World, new_experiment


class Looks:
    """Time passes 10 s a look while the shell reads its start-up files; that ends at `through_at`."""

    def __init__(self, gate: Path, through_at: float) -> None:
        self.gate, self.through_at, self.now = gate, through_at, 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
        if not self.gate.exists():
            self.now += 10
        if self.now >= self.through_at:
            self.gate.touch()


Detach = Callable[[float], None]


@pytest.fixture
def detach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Detach:
    """Detach into a shell that waits for the file `through` before it reads its first command. What is then
    started only says so by the last file of a run."""
    shell, gate = tmp_path / "slow_shell", tmp_path / "through"
    shell.write_text(f"#!/bin/sh\nwhile [ ! -e {gate} ]; do sleep 0.05; done\nexec /bin/sh\n")
    shell.chmod(0o755)
    monkeypatch.setenv("SHELL", str(shell))
    harness = ("sh", "-c", 'touch "$2/finish.flag"; sleep 1', "harness")
    monkeypatch.setattr("harness.self_command.HARNESS", harness)
    (tmp_path / "trial").mkdir()

    def let_go(through_at: float) -> None:
        monkeypatch.setattr(run, "time", Looks(gate, through_at))
        experiment = new_experiment(tmp_path / "trial", World([]))
        run.let_go(experiment, uuid4().hex)  # what one leaves behind is ended by its id

    return let_go


def test_patience_begins_with_the_first_command(detach: Detach, capsys: pytest.CaptureFixture[str]) -> None:
    detach(run.PATIENCE_S + 40)
    assert "running on in tmux session ajet_watch_sort_digits-" in capsys.readouterr().out


def test_a_line_that_the_shell_swallows_is_typed_again(
    detach: Detach, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "SHELL_PATIENCE_S", 3000.0)
    (tmp_path / "slow_shell").write_text("#!/bin/sh\nread -r swallowed\nexec /bin/sh\n")
    detach(inf)
    assert "running on in tmux session" in capsys.readouterr().out


def test_a_shell_that_never_comes(detach: Detach, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "trial"
    with pytest.raises(typer.Exit):
        detach(inf)
    said = capsys.readouterr().err
    assert "the shell in tmux session ajet_watch_sort_digits-" in said
    assert "has not come to its first command in 120 s (start-up files of the shell?)" in said
    assert f"`harness show {folder}`" in said and f"`harness resume {folder}`" in said
    (tmp_path / "through").touch()
    give_up = time.monotonic() + 30
    while not (folder / "finish.flag").exists():
        assert time.monotonic() < give_up
        time.sleep(0.05)
