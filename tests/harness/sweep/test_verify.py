"""A finished sweep is held to its runs: whatever is changed in it, or in a run, is found and named."""

import json
import os
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.results.manifest import fingerprints, with_checksum
from harness.results.verify import NotFinishedError
from harness.sweep.verify import verify_sweep
from tests.harness.sweep.finished import TOKEN, shared_sweep


@pytest.fixture
def sweep(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Path:
    return Path(shutil.copytree(shared_sweep(tmp_path_factory), tmp_path / "elsewhere"))


def found(folder: Path) -> dict[str, str]:
    return {item.where: item.what for item in verify_sweep(folder).discrepancies}


def forge(folder: Path, *changes: tuple[list[Any], Any]) -> None:
    """Change values of sweep.json as somebody would who knows of its checksum and its fingerprints."""
    result = json.loads((folder / "sweep.json").read_text())
    del result["checksum"]
    for place, value in changes:
        inner = result
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = value
    result["documents"] = fingerprints(folder, [folder / item["path"] for item in result["documents"]])
    (folder / "sweep.json").write_text(with_checksum(result))


def rewrite(path: Path, *changes: tuple[str, str]) -> None:
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)


def test_a_sweep_that_was_copied_still_holds(sweep: Path) -> None:
    checked = verify_sweep(sweep)
    assert checked.discrepancies == ()
    assert checked.runs == 4
    assert checked.figures == len(list(sweep.rglob("figures/*.json")))
    assert checked.files == len([path for path in sweep.rglob("*") if path.is_file()])


@pytest.mark.parametrize("count", [1, pytest.param(300, marks=pytest.mark.soak)])
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


def test_forged_numbers_do_not_follow_from_the_runs(sweep: Path) -> None:
    confounds = json.loads((sweep / "sweep.json").read_text())["comparison"]["confounds"]
    assert "torch 2.4.0 → 2.5.1" in confounds[0]
    forge(
        sweep,
        (["comparison", "points", 1, "value", "mean"], 0.99),
        (["comparison", "keys", 0, "contrasts", 0, "finding"], "lower[redacted]"),
        (["comparison", "confounds"], []),
    )
    named = found(sweep)
    places = ("points[1].value.mean", "keys[0].contrasts[0].finding", "confounds", "confounds[0]")
    assert set(named) == {f"sweep.json, comparison.{place}" for place in places}
    mean = named["sweep.json, comparison.points[1].value.mean"]
    assert mean.startswith("it says 0.99, the raw files give 0.")


def test_forged_words_do_not_follow_from_the_runs(sweep: Path) -> None:
    """Raw files, journal and finish.flag as they were; the rest made to agree with itself."""
    verdict = json.loads((sweep / "sweep.json").read_text())["verdict"]
    rewrite(sweep / "sweep_report.html", (verdict, "a matters hugely"))
    rewrite(sweep / "sweep_report.md", (verdict, "a matters hugely"))
    forge(
        sweep,
        (["verdict"], "a matters hugely"),
        (["found"], ["a matters: 2 is higher (better) than 1"]),
        (["headline"], ["a matters hugely"]),
        (["warnings"], []),
        (["about", "canary"], "succeeded"),
        (["plan", "question"], "Does a matter?"),
        (["narrative", "sections"], []),
    )
    named = found(sweep)
    for place in ("verdict", "found", "headline", "warnings", "about.canary", "plan.question"):
        assert any(where.startswith(f"sweep.json, {place}") for where in named), place
    assert "sweep.json, narrative.sections" in named
    files = {"sweep.json", "sweep_report.html", "sweep_report.md"}
    assert {where.partition(",")[0] for where in named} == files


def test_secrets_of_then_are_masked_and_no_others(sweep: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sweep.json", "sweep_report.html", "sweep_report.md"):
        rewrite(sweep / name, (TOKEN, "[redacted]"))
    plan = json.loads((sweep / "sweep.json").read_text())["plan"]
    assert plan["question"] == "Does a help with [redacted]?"
    forge(sweep)
    monkeypatch.setenv("MY_API_KEY", "succeeded")
    assert found(sweep) == {}
    assert os.environ["MY_API_KEY"] == "succeeded"


def test_a_changed_run_is_named_below_its_name(sweep: Path) -> None:
    path = sweep / "p02-s1" / "attempts/01/trainer/validation.jsonl"
    path.write_text(path.read_text().replace("true", "false", 1).replace("1.0", "0.0", 1))
    named = found(sweep)
    assert "p02-s1: attempts/01/trainer/validation.jsonl" in named
    assert any(where.startswith("sweep.json, comparison.runs[3]") for where in named)


def test_tables_and_plan_follow_from_runs_and_journal(sweep: Path) -> None:
    for name in ("points.csv", "figures/curves.json"):
        path = sweep / name
        rows = path.read_text().splitlines()
        path.write_text("\n".join([*rows[:-1], re.sub(r"0\.\d", "0.99", rows[-1], count=1)]) + "\n")
    plan = json.loads((sweep / "plan.json").read_text())
    plan["expectations"] = [{"key": "a", "level": 2, "effect": "higher", "why": "I always knew"}]
    (sweep / "plan.json").write_text(json.dumps(plan))
    named = found(sweep)
    assert any(where.startswith("points.csv, line 5") for where in named)
    assert any(where.startswith("figures/curves.json, panels") for where in named)
    assert any(where.startswith("plan.json, expectations") for where in named)


def test_files_that_are_gone_are_named(sweep: Path) -> None:
    gone = ["p01-s0/finish.flag", "points.csv", "figures/curves.json", "snapshot/code/train.py"]
    gone.append("plan/p01-s0/blueprint.md")
    for name in gone:
        (sweep / name).unlink()
    named = found(sweep)
    assert {named[name].partition(",")[0] for name in gone} == {"the file is gone"}


@pytest.mark.parametrize("name", ["sweep.json", "sweep.jsonl"])
def test_a_sweep_without_a_record_is_not_believed(sweep: Path, name: str) -> None:
    (sweep / name).unlink()
    assert "the file is gone" in found(sweep)[name]
    (sweep / "finish.flag").unlink()
    with pytest.raises(NotFinishedError, match="harness resume"):
        verify_sweep(sweep)


def test_what_was_put_there_is_named(sweep: Path) -> None:
    shutil.copytree(sweep / "p02-s0", sweep / "p02-s2")
    stray = [
        "canary/result.md",
        "checkpoints/sweep_report.html",
        "snapshot/code/json.py",
        "snapshot/notes.md",
    ]
    for name in (*stray, "snapshot/code/outputs/model.py", "jobs/p01-s0-01/pane.log"):
        (sweep / name).parent.mkdir(parents=True, exist_ok=True)
        (sweep / name).write_text("x")
    links = ("README.html", "plan/p03-s0")
    for name in links:
        (sweep / name).symlink_to("/etc")
    named = found(sweep)
    copied = [where for where in named if where.startswith("p02-s2/")]
    assert len(copied) > 10
    assert set(named) == {*copied, *stray, *links}


@pytest.mark.parametrize(
    ("comparison", "documents"), [(None, [{"path": "../x"}]), ({"points": {"a": 1}}, None)]
)
def test_parts_of_the_wrong_kind_are_named(sweep: Path, comparison: Any, documents: Any) -> None:
    result = json.loads((sweep / "sweep.json").read_text())
    result |= {"comparison": comparison, "documents": documents}
    (sweep / "sweep.json").write_text(json.dumps(result))
    named = found(sweep)
    for part in ("comparison", "documents"):
        assert any(where.startswith(f"sweep.json, {part}") for where in named)


@pytest.mark.parametrize("name", ["p01-s0/attempts/01/metrics.jsonl", "plan/p01-s0/config.yaml"])
def test_what_a_link_leads_to_is_not_read(sweep: Path, name: str) -> None:
    (sweep / name).unlink(missing_ok=True)
    (sweep / name).symlink_to("/dev/zero")
    told = [item for item in verify_sweep(sweep).discrepancies if "a link" in item.what]
    assert {item.where.replace(": ", "/") for item in told} == {name}


@pytest.mark.parametrize("content", ["{}", '{"git": 3}', None])
def test_a_report_that_cannot_be_made_again_is_a_discrepancy(sweep: Path, content: str | None) -> None:
    record = sweep / "snapshot" / "snapshot.json"
    record.unlink()
    if content is not None:
        record.write_text(content)
    assert found(sweep)["sweep.json"].startswith("the report cannot be made again: ")
