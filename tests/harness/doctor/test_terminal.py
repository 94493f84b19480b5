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


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (None, ("problem", "path_not_found")),
        ("exec sleep 60", ("problem", "hang_no_output")),
        ("echo 'directory /tmp/tmux-0 has unsafe permissions' >&2; exit 1", ("warning", "permission")),
    ],
)
def test_a_tmux_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str | None, expected: tuple[str, str]
) -> None:
    if program is not None:
        (tmp_path / "tmux").write_text(f"#!/bin/sh\n{program}\n")
        (tmp_path / "tmux").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path) if program is None else f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(terminal, "_LIMIT_S", 0.2)
    assert bad(examined(terminal.tmux, launch(tmp_path))) == [expected]


def test_the_same_experiment(tmp_path: Path) -> None:
    from harness.blueprint import read

    blueprint = tmp_path / "blueprint.md"
    blueprint.write_text("## [exp_purpose]\nexam\n\n## [exp_launch_command]\n`python t.py`\n")
    understood = read(blueprint)
    running = tmp_path / "running"
    running.mkdir()
    experiment = begin(understood, running, RunOptions())
    index.add(index.IndexedRun("id", understood.name, str(running), 1.0))
    again = launch(tmp_path, "python t.py", name=understood.name, path=blueprint)
    try:
        assert journal.is_owned(running / "journal.jsonl")
        found = examined(terminal.is_not_running, again)
        assert [finding.severity for finding in found] == ["warning"] and str(running) in found[0].text
        other = launch(tmp_path, "python t.py", name=understood.name, path=tmp_path / "other.md")
        assert examined(terminal.is_not_running, other) == []
    finally:
        experiment.close()
    assert examined(terminal.is_not_running, again) == []
