"""tmux that is missing or does not answer, and a run that is under way already."""

from pathlib import Path

import pytest

from harness import index, journal
from harness.doctor import terminal
from harness.experiment import begin
from harness.options import RunOptions
from tests.harness.doctor.planning import bad, examined, launch


def test_tmux_without_a_server(tmp_path: Path) -> None:
    assert bad(examined(terminal.tmux, launch(tmp_path))) == []


def test_no_tmux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert bad(examined(terminal.tmux, launch(tmp_path))) == [("problem", "path_not_found")]


def test_a_tmux_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "tmux"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(terminal, "_LIMIT_S", 0.2)
    assert bad(examined(terminal.tmux, launch(tmp_path))) == [("problem", "hang_no_output")]


def test_a_tmux_that_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "tmux"
    program.write_text("#!/bin/sh\necho 'directory /tmp/tmux-0 has unsafe permissions' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert bad(examined(terminal.tmux, launch(tmp_path))) == [("warning", "permission")]


def test_the_same_experiment(tmp_path: Path) -> None:
    from harness.blueprint import read

    blueprint = tmp_path / "blueprint.md"
    blueprint.write_text("## [exp_purpose]\nexam\n\n## [exp_launch_command]\n`python t.py`\n")
    understood = read(blueprint)
    running = tmp_path / "running"
    running.mkdir()
    experiment = begin(understood, running, RunOptions())
    index.add(index.IndexedRun("id", understood.name, str(running), 1.0))
    again = launch(tmp_path, "python t.py", name=understood.name, path=str(blueprint))
    try:
        assert journal.is_owned(running / "journal.jsonl")
        found = examined(terminal.is_not_running, again)
        assert [finding.severity for finding in found] == ["warning"] and str(running) in found[0].text
        other = launch(tmp_path, "python t.py", name=understood.name, path=str(tmp_path / "other.md"))
        assert examined(terminal.is_not_running, other) == []
    finally:
        experiment.close()
    assert examined(terminal.is_not_running, again) == []
