"""The runs in any folders: each once, under a name of its own."""

import shutil
from pathlib import Path

import pytest

from harness.results.compare import compare_folders as compared
from harness.results.comparing.types import Comparison, NotComparableError
from harness.sweep import reporting
from tests.harness.results.comparing.result_folders import trained


def compare_folders(folders: list[Path]) -> Comparison:
    return compared(folders, reporting.planned)


def test_copies_of_a_run_are_one_run(tmp_path: Path) -> None:
    """The journal tells, whatever the copy is called; here also one whose journal is damaged."""
    folders = [trained(tmp_path / f"{kl}-{seed}", kl=kl, seed=seed) for kl in (0.01, 0.1) for seed in (1, 2)]
    (folders[3] / "journal.jsonl").write_text("damaged\n\n")
    copies = [Path(shutil.copytree(one, tmp_path / "old" / one.name)) for one in folders]
    found = compare_folders([*folders, *copies])
    assert [point.value.n for point in found.points if point.value] == [2, 2]
    assert len(found.missing) == 4
    assert found.missing[3] == f"old/0.1-2: a copy of {tmp_path.name}/0.1-2, the same run counts once"
    assert found.confounds == ()


def test_of_two_copies_the_one_that_came_to_an_end_counts(tmp_path: Path) -> None:
    run, other = trained(tmp_path / "a"), trained(tmp_path / "b", kl=0.1)
    backup = shutil.copytree(run, tmp_path / "backup")
    (backup / "finish.flag").unlink()
    found = compare_folders([backup, run, other])
    assert [one.run.name for one in found.runs] == ["a", "b"]
    assert found.missing == ("backup: a copy of a, the same run counts once",)
    with pytest.raises(NotComparableError, match=r"one run alone .* \(backup: a copy of a,"):
        compare_folders([run, backup])


def test_folders_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    above = ("a/x", "b/x", "y")
    folders = [trained(tmp_path / parent / "run", seed=seed) for seed, parent in enumerate(above)]
    assert [run.name for run in compare_folders(folders).study.runs] == ["a/x/run", "b/x/run", "y/run"]


def test_the_same_folder_twice_is_one_run(tmp_path: Path) -> None:
    folder = trained(tmp_path / "a")
    with pytest.raises(NotComparableError, match="one run alone"):
        compare_folders([folder, tmp_path / "." / "a"])


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotComparableError, match=r"nothing holds no run"):
        compare_folders([trained(tmp_path / "a"), tmp_path / "nothing"])
