"""`harness rm` and `harness open`."""

import webbrowser
from pathlib import Path

import pytest

from harness import index
from harness.journal import Journal
from tests.harness.cli.test_control import begun
from tests.harness.cli.typed import typed
from tests.harness.sweep.sweep_states import plan, write


def test_rm_asks_and_deletes_the_folder_and_its_line(tmp_path: Path) -> None:
    gone, kept = begun(tmp_path / "a", finished=True), begun(tmp_path / "ab", finished=True)
    assert typed("rm", "a", piped=b"n\n")[0] == 0 and gone.exists()
    assert typed("rm", "a")[0] == 1 and gone.exists(), "nobody answers"
    status, out, _ = typed("rm", "a", piped=b"y\n")
    assert status == 0 and "Delete" in out and not gone.exists()
    path = index.state_home() / "runs.jsonl"
    assert [run.dir for run in index.runs()] == [kept] and str(gone) + '"' not in path.read_text()


def test_rm_refuses_what_runs_and_a_part_of_a_sweep(tmp_path: Path) -> None:
    folder = begun(tmp_path / "a")
    with Journal(folder / "journal.jsonl", lambda: 1.0):
        status, _, said = typed("rm", "--yes", "a")
    assert status == 2 and f"harness stop {folder}" in said
    sweep = write(tmp_path / "ablation", plan({"k": [1, 2]}))
    run = begun(sweep / "p01-s0")
    assert "delete the whole sweep" in typed("rm", "--yes", str(run))[2]
    assert typed("rm", "--yes", "ablation", "a")[0] == 0
    assert not sweep.exists() and not folder.exists() and index.everything() == []


def test_open_shows_the_report_where_there_are_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, shown = begun(tmp_path / "a b"), list[str]()
    monkeypatch.setattr(webbrowser, "open", shown.append)
    for name in ("WAYLAND_DISPLAY", "BROWSER", "DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert "has no report yet" in typed("open", "a b")[2]
    (folder / "report.html").touch()
    assert typed("open")[:2] == (0, f"{folder / 'report.html'}\n") and shown == []
    monkeypatch.setenv("DISPLAY", ":0")
    typed("open", "a b")
    assert shown == [(folder / "report.html").as_uri()] and "a%20b" in shown[0]
