"""`harness verify` as it is typed: what it prints, and its exit status."""

import json
import shutil
from pathlib import Path

import pytest

from harness import index
from harness.results.manifest import with_checksum
from tests.harness.cli.typed import typed
from tests.harness.results.finished import finished_run
from tests.harness.sweep.finished import shared_sweep


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_run(tmp_path_factory.mktemp("built") / "sort", metrics=("critic/rewards/mean",))


@pytest.fixture
def run(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "sort"))


def verify(*words: str) -> tuple[int, str]:
    status, out, err = typed("verify", *words)
    return status, out + err


def test_nothing_differs(run: Path) -> None:
    status, shown = verify(str(run))
    assert status == 0
    (line,) = shown.splitlines()
    assert line.startswith(f"{run}: 1 run, ") and line.endswith(" checked: nothing differs")


def test_each_discrepancy_has_its_line(run: Path) -> None:
    with (run / "result.md").open("a") as file:
        file.write("the best run ever\n")
    (run / "attempts" / "01" / "no\x1b[31mte.txt").write_text("x")
    status, shown = verify(str(run))
    assert status == 1
    changed, added, line, summary = shown.splitlines()
    assert changed == "result.md: the file has changed since it was recorded"
    assert "\x1b" not in added and "nothing accounts for this file" in added
    assert line.startswith("result.md, line ") and "it says 'the best run ever'" in line
    assert summary.endswith("checked: 3 differ")


def test_what_is_gone(run: Path) -> None:
    (run / "result.md").unlink()
    status, shown = verify(str(run), "--json")
    data = json.loads(shown)
    assert (status, data["runs"], data["folder"]) == (1, 1, str(run))
    assert data["discrepancies"] == [{"where": "result.md", "what": "the file is gone"}]
    (run / "finish.flag").unlink()
    status, shown = verify(str(run))
    assert status == 2 and "harness resume" in shown, "it has not ended"
    (run / "finish.flag").write_text("{}")
    (run / "journal.jsonl").unlink()
    status, shown = verify(str(run))
    assert status == 1 and "journal.jsonl: the file is gone" in shown, "it is looked at nevertheless"


def test_another_version_of_the_harness_is_no_tampering(run: Path) -> None:
    result = json.loads((run / "result.json").read_text())
    changed = {**result, "built_by": "0.0.9 (3f2a9c1d)", "reason": "worded otherwise"}
    del changed["checksum"]
    (run / "result.json").write_text(with_checksum(changed))
    status, shown = verify(str(run))
    assert status == 3 and shown.startswith("result.json: built by '0.0.9 (3f2a9c1d)', this is ")
    assert len(shown.splitlines()) == 2
    assert typed("report", str(run))[0] == verify(str(run))[0] == 0


def test_a_run_is_found_by_its_name(run: Path) -> None:
    index.add(index.IndexedRun("7f3a12c4d5e6", "sort", str(run), 0.0))
    assert verify("sort")[0] == verify("7f3a")[0] == verify()[0] == 0
    assert verify("sert")[0] == 2


def test_a_sweep_is_checked_with_its_runs(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(shared_sweep(tmp_path_factory), tmp_path / "trial"))
    (folder / "sweep.jsonl").unlink()
    status, shown = verify(str(folder))
    assert status == 1 and "sweep.jsonl: the file is gone" in shown
