"""Finding result folders by path, name or id."""

from pathlib import Path

import pytest

from harness import index
from harness.index import IndexedRun, UnknownRunError
from harness.journal import Journal
from harness.sweep.state import SWEEP, SweepCreated
from tests.harness.runs import created
from tests.harness.sweep.sweep_states import plan


def make(folder: Path, experiment_id: str, name: str = "", kind: index.Kind = "run") -> IndexedRun:
    folder.mkdir()
    if kind == "run":
        with Journal(folder / "journal.jsonl", lambda: 1.0) as journal:
            journal.append(created())
    else:
        with Journal(folder / "sweep.jsonl", lambda: 1.0, SWEEP) as journal:
            journal.append(SweepCreated("5eed", plan({"lr": (1, 2)})))
    index.add(run := IndexedRun(experiment_id, name or folder.name, str(folder), 1.0, kind))
    return run


def test_by_path_name_id_and_newest(tmp_path: Path) -> None:
    first = make(tmp_path / "alpha", "aaaa00000000")
    second = make(tmp_path / "beta", "bbbb00000000")
    assert index.find(str(first.dir)) == index.find("alpha") == first.dir
    assert index.find("bbbb") == index.find(None) == second.dir
    with pytest.raises(UnknownRunError, match="did you mean alpha"):
        index.find("alhpa")


def test_a_folder_of_that_name_comes_before_a_later_run_of_that_name(tmp_path: Path) -> None:
    first = make(tmp_path / "trial", "aaaa00000000")
    again = make(tmp_path / "trial-2", "bbbb00000000", name="trial")
    assert index.find("trial") == first.dir
    assert index.find("trial-2") == again.dir


def test_deleted_folders_and_torn_lines_are_left_out(tmp_path: Path) -> None:
    kept = make(tmp_path / "kept", "dddd00000000")
    index.add(IndexedRun("eeee", "gone", str(tmp_path / "gone"), 2.0))
    with (index.state_home() / "runs.jsonl").open("a") as file:
        file.write('{"experiment_id": "ff')
    assert index.runs() == [kept]
    after = make(tmp_path / "after", "ffff00000000")
    assert index.runs() == [kept, after]


def test_a_run_killed_before_its_first_entry_is_not_one_to_resume(tmp_path: Path) -> None:
    run = make(tmp_path / "trial", "aaaa00000000")
    path = run.dir / "journal.jsonl"
    path.write_bytes(path.read_bytes()[:10])
    assert index.runs() == []
    for word in (str(run.dir), None):
        with pytest.raises(UnknownRunError, match="harness run"):
            index.find(word)


def test_sweeps_are_found_beside_runs_and_are_none(tmp_path: Path) -> None:
    run = make(tmp_path / "alpha", "aaaa00000000")
    sweep = make(tmp_path / "ablation", "5eed00000000", kind="sweep")
    (tmp_path / "nothing").mkdir()
    index.add(IndexedRun("dddd00000000", "nothing", str(tmp_path / "nothing"), 1.0, "sweep"))
    assert index.runs() == [run] and index.everything("sweep") == [sweep]
    for word in (str(sweep.dir), "ablation", "5eed", None):
        assert index.find(word) == sweep.dir
    assert index.find("alpha") == run.dir and index.find_run(None) == run.dir


def test_a_run_of_a_sweep_stands_for_it_when_the_newest_is_meant(tmp_path: Path) -> None:
    sweep = make(tmp_path / "ablation", "5eed00000000", kind="sweep")
    run = make(sweep.dir / "p01-s0", "aaaa00000000")
    assert index.find(None) == sweep.dir
    assert index.find_run(None) == run.dir == index.find("p01-s0")


def test_who_needs_a_run_is_told_the_runs_of_a_sweep(tmp_path: Path) -> None:
    sweep = make(tmp_path / "ablation", "5eed00000000", kind="sweep").dir
    with pytest.raises(UnknownRunError, match="none of its runs has begun"):
        index.find_run("ablation")
    for number in range(7):
        make(sweep / f"p{number:02d}", f"{number}aaa00000000")
    for word in (str(sweep), "ablation", "5eed"):
        with pytest.raises(UnknownRunError, match=r"is a sweep, not a run.*: p00, p01, .* and 2 more"):
            index.find_run(word)


def test_lines_without_a_kind_are_runs(tmp_path: Path) -> None:
    run = make(tmp_path / "old", "aaaa00000000")
    path = index.state_home() / "runs.jsonl"
    path.write_text(path.read_text().replace(', "kind": "run"', ""))
    assert index.runs() == [run]
