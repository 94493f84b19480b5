"""A finished sweep is held to its runs: whatever is changed in it, or in a run, is found and named."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.results.verify import with_checksum
from harness.results.verifying.types import NotFinishedError
from harness.sweep.verifying import verify_sweep
from tests.harness.sweep.finished import finished_sweep


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_sweep(tmp_path_factory.mktemp("built") / "trial")


@pytest.fixture
def sweep(built: Path, tmp_path: Path) -> Path:
    """A finished sweep that was copied to another place."""
    return Path(shutil.copytree(built, tmp_path / "elsewhere"))


def found(folder: Path) -> dict[str, str]:
    return {item.where: item.what for item in verify_sweep(folder).discrepancies}


def forge(folder: Path, place: list[Any], value: Any) -> None:
    """Change a value of sweep.json as somebody would who knows of its checksum."""
    result = json.loads((folder / "sweep.json").read_text())
    del result["checksum"]
    inner = result
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    (folder / "sweep.json").write_text(with_checksum(result))


def test_a_sweep_that_was_copied_still_holds(sweep: Path) -> None:
    checked = verify_sweep(sweep)
    assert checked.discrepancies == ()
    assert checked.runs == 4
    assert checked.figures == len(list(sweep.rglob("figures/*.csv")))
    assert checked.files == len([path for path in sweep.rglob("*") if path.is_file()])


@pytest.mark.parametrize("count", [3, pytest.param(300, marks=pytest.mark.soak)])
def test_any_changed_byte_is_found(sweep: Path, count: int) -> None:
    rng = random.Random(count)
    files = sorted(path for path in sweep.rglob("*") if path.is_file() and path.stat().st_size)
    for path in rng.sample(files, min(count, len(files))):
        before = path.read_bytes()
        position = rng.randrange(len(before))
        new = (before[position] + rng.randrange(1, 256)) % 256
        path.write_bytes(before[:position] + bytes([new]) + before[position + 1 :])
        assert verify_sweep(sweep).discrepancies, f"byte {position} of {path.relative_to(sweep)} is now {new}"
        path.write_bytes(before)


def test_a_forged_mean_does_not_follow_from_the_runs(sweep: Path) -> None:
    forge(sweep, ["comparison", "points", 1, "value", "mean"], 0.99)
    (where,) = found(sweep)
    assert where == "sweep.json, comparison.points[1].value.mean"
    assert found(sweep)[where].startswith("it says 0.99, the runs give 0.")


def test_a_forged_finding_does_not_follow_from_the_runs(sweep: Path) -> None:
    forge(sweep, ["comparison", "keys", 0, "contrasts", 0, "finding"], "higher still")
    assert list(found(sweep)) == ["sweep.json, comparison.keys[0].contrasts[0].finding"]


def test_a_changed_run_is_named_below_its_name(sweep: Path) -> None:
    path = sweep / "p02-s1" / "attempts/01/trainer/validation.jsonl"
    path.write_text(path.read_text().replace("true", "false", 1).replace("1.0", "0.0", 1))
    named = found(sweep)
    assert "p02-s1: attempts/01/trainer/validation.jsonl" in named
    assert any(where.startswith("sweep.json, comparison.runs[3]") for where in named)


def test_the_tables_follow_from_the_runs(sweep: Path) -> None:
    for name in ("points.csv", "figures/curves.csv"):
        path = sweep / name
        rows = path.read_text().splitlines()
        path.write_text("\n".join([*rows[:-1], rows[-1].replace("0.", "0.9", 1)]) + "\n")
    named = found(sweep)
    assert any(where.startswith("points.csv, line 5") for where in named)
    assert any(where.startswith("figures/curves.csv, line") for where in named)


def test_files_that_are_gone_are_named(sweep: Path) -> None:
    gone = (
        *("p01-s0/finish.flag", "points.csv", "figures/curves.csv", "snapshot/code/train.py"),
        "plan/p01-s0/blueprint.md",
    )
    for name in gone:
        (sweep / name).unlink()
    named = found(sweep)
    assert set(gone) <= set(named)
    assert {named[name].partition(",")[0] for name in gone} == {"the file is gone"}


@pytest.mark.parametrize("name", ["sweep.json", "sweep.jsonl"])
def test_a_sweep_without_a_record_is_not_believed(sweep: Path, name: str) -> None:
    (sweep / name).unlink()
    assert "the file is gone" in found(sweep)[name]


def test_a_plan_that_was_changed_afterwards_is_held_to_the_journal(sweep: Path) -> None:
    plan = json.loads((sweep / "plan.json").read_text())
    plan["expectations"] = [{"key": "a", "level": 2, "effect": "higher", "why": "I always knew"}]
    (sweep / "plan.json").write_text(json.dumps(plan))
    assert "plan.json, expectations" in found(sweep)


def test_a_run_that_was_put_there_is_named(sweep: Path) -> None:
    shutil.copytree(sweep / "p02-s0", sweep / "p02-s2")
    assert all(where.startswith("p02-s2/") for where in found(sweep))
    assert len(found(sweep)) > 10


@pytest.mark.parametrize(
    ("key", "value"),
    [("comparison", None), ("comparison", {"points": {"a": 1}}), ("documents", [{"path": "../x"}])],
)
def test_a_part_of_the_wrong_kind_is_named(sweep: Path, key: str, value: Any) -> None:
    result = json.loads((sweep / "sweep.json").read_text())
    (sweep / "sweep.json").write_text(json.dumps({**result, key: value}))
    assert any(where.startswith(f"sweep.json, {key}") for where in found(sweep))


def test_a_run_behind_a_link_is_not_read(sweep: Path, built: Path) -> None:
    (sweep / "p01-s0/attempts/01/metrics.jsonl").unlink()
    (sweep / "p01-s0/attempts/01/metrics.jsonl").symlink_to("/dev/zero")
    assert "a link" in found(sweep)["p01-s0: attempts/01/metrics.jsonl"]


def test_a_sweep_without_an_end_is_not_verified(sweep: Path) -> None:
    (sweep / "finish.flag").unlink()
    with pytest.raises(NotFinishedError, match="harness resume"):
        verify_sweep(sweep)
