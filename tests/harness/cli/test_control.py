"""`harness stop`, `approve` and `report`: whom they mean, and what their exit status says."""

import time
from pathlib import Path

import pytest
import typer

from harness import index
from harness.blueprint import read
from harness.journal import Journal
from harness.journal.events import Created
from tests.harness.cli.typed import typed


def begun(folder: Path, name: str = "", finished: bool = False) -> Path:
    """A run that has begun and that nobody watches."""
    folder.mkdir(parents=True)
    with Journal(folder / "journal.jsonl", time.time) as journal:
        blueprint = read(folder / "blueprint.md")
        journal.append(Created("0123456789ab", name or folder.name, time.time() + 60, "playbook", blueprint))
    index.add(index.IndexedRun(f"{folder.name}-0000", name or folder.name, str(folder), time.time()))
    if finished:
        (folder / "finish.flag").write_text("{}")
    return folder


def ends_with(status: int, flag: bool, monkeypatch: pytest.MonkeyPatch, said: str = "{}") -> None:
    """What takes a run over ends with this status, and leaves a finish.flag or not."""

    def go_on_here(folder: Path, stopped_by: str) -> None:
        if flag:
            (folder / "finish.flag").write_text(said)
        raise typer.Exit(status)

    monkeypatch.setattr("harness.cli.run.go_on_here", go_on_here)


def test_d20_a_stop_that_worked_ends_with_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = begun(tmp_path / "a")
    ends_with(1, False, monkeypatch)
    assert typed("stop", "a")[0] == 1
    ends_with(130, True, monkeypatch)
    status, out, _ = typed("stop", "a")
    assert (status, out) == (0, f"stopped: {folder}\n")
    ends_with(0, True, monkeypatch, '{"outcome": "succeeded"}')
    assert "had ended (succeeded)" in typed("stop", "a")[1]


@pytest.mark.parametrize("command", ["stop", "report"])
def test_d20_without_a_name_several_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    first, second = begun(tmp_path / "a"), begun(tmp_path / "b")
    ends_with(130, True, monkeypatch)
    status, _, said = typed(command)
    assert status == 2 and str(first) in said and str(second) in said
    assert not (second / "finish.flag").exists()


def test_d20_without_a_name_the_only_one_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(tmp_path / "a", finished=True)
    second = begun(tmp_path / "b")
    ends_with(130, True, monkeypatch)
    assert typed("stop")[:2] == (0, f"stopped: {second}\n")
    status, _, said = typed("stop")
    assert status == 2 and "there is no unfinished run" in said
    assert "there is no question that waits for an answer" in typed("approve")[2]


@pytest.mark.parametrize("command", ["show", "logs", "stop", "report", "verify"])
def test_d20_a_name_of_two_runs_is_refused_with_both_paths(tmp_path: Path, command: str) -> None:
    folders = [begun(tmp_path / place / "trial") for place in ("x", "y")]
    status, _, said = typed(command, "trial")
    assert status == 2 and all(str(folder) in said for folder in folders)


def test_d29_a_journal_of_garbage_is_an_error(tmp_path: Path) -> None:
    folder = begun(tmp_path / "a")
    (folder / "journal.jsonl").write_text("garbage\n")
    for command in ("report", "stop"):
        status, _, said = typed(command, str(folder))
        assert status == 2 and "the file is no journal" in said
    assert "the file is no journal" in typed("show", str(folder))[1]
    assert "damaged" in typed("ls")[1]
