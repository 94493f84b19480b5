"""A process beside the training: what its folders, its last words and its surroundings do to its keeper."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trainer_core.processes import eventually
from trainer_core.child_process import ChildProcess


def test_only_its_own_folders_go_with_it(tmp_path: Path) -> None:
    own, beside = tmp_path / "a:b", tmp_path / "a"
    own.mkdir()
    beside.mkdir()
    process = ChildProcess(["sleep", "60"], "it", tmp_path / "log", leaves=[str(own)])
    assert process._process.stdin is not None
    process._process.stdin.close()  # as when the trainer is killed
    eventually(lambda: not own.exists())
    process.close()
    assert beside.is_dir()


def test_its_exit_status_is_known_whatever_it_printed_last(tmp_path: Path) -> None:
    with ChildProcess(["sh", "-c", "printf 'at 100%%'; exit 3"], "it", tmp_path / "log") as process:
        eventually(lambda: not process.is_running)
        assert process.exit_status == 3


def test_modules_of_the_working_directory_are_not_its_keepers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "signal.py").write_text("raise SystemExit('not the one')")
    with ChildProcess(["true"], "it", tmp_path / "log") as process:
        eventually(lambda: not process.is_running)
        assert process.exit_status == 0
