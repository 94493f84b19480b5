"""Finding result folders by path, name or id."""

from pathlib import Path

import pytest

from harness import index
from harness.index import IndexedRun, UnknownRunError
from harness.journal import Journal


def make(folder: Path, experiment_id: str) -> IndexedRun:
    folder.mkdir()
    with Journal(folder / "journal.jsonl", lambda: 1.0) as journal:
        journal.append("created")
    run = IndexedRun(experiment_id, folder.name, str(folder), 1.0)
    index.add(run)
    return run


def test_by_path_name_id_and_newest(tmp_path: Path) -> None:
    first = make(tmp_path / "alpha", "aaaa00000000")
    second = make(tmp_path / "beta", "bbbb00000000")
    assert index.find(str(first.dir)) == first.dir
    assert index.find("alpha") == first.dir
    assert index.find("bbbb") == second.dir
    assert index.find(None) == second.dir


def test_a_folder_of_that_name_comes_before_a_later_run_of_that_name(tmp_path: Path) -> None:
    first = make(tmp_path / "trial", "aaaa00000000")
    again = make(tmp_path / "trial-2", "bbbb00000000")
    index.add(IndexedRun("bbbb00000000", "trial", again.result_dir, 2.0))
    assert index.find("trial") == first.dir
    assert index.find("trial-2") == again.dir


def test_unknown_names_the_closest(tmp_path: Path) -> None:
    make(tmp_path / "quickstart", "cccc00000000")
    with pytest.raises(UnknownRunError, match="did you mean quickstart"):
        index.find("quikstart")


def test_nothing_yet() -> None:
    assert index.runs() == []
    with pytest.raises(UnknownRunError, match="harness run"):
        index.find(None)


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
    with pytest.raises(UnknownRunError, match="harness run"):
        index.find(str(run.dir))
