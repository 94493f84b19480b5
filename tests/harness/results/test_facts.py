"""A number that does not stand where the report says is withheld, whatever was changed; manifests."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.results.collect import collect
from harness.results.facts import build_facts
from harness.results.manifest import manifest, vouched_for
from harness.results.report import build_report
from harness.results.sources import computed
from harness.results.types import Fact, Source
from tests.harness.results.journals import ended, foreign_run, successful_run
from tests.harness.results.synthetic import attempt

Built = tuple[Path, dict[str, Fact]]


def withheld(folder: Path) -> dict[str, str]:
    return {name: fact.withheld for name, fact in build_facts(collect(folder)).items() if fact.withheld}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("built")
    successful_run(folder, tasks=40)
    assert withheld(folder) == {}
    return folder, build_facts(collect(folder))


@pytest.mark.parametrize(
    ("file", "changed", "fact"),
    [
        ("metrics.jsonl", {"values": {"critic/rewards/mean": 0.99}}, "key/reward_last"),
        ("trainer/metrics.jsonl", {"actor/kl_loss": 0.0}, "key/kl_last"),
    ],
)
def test_a_row_that_differs_from_its_origin_is_withheld(
    built: Built, tmp_path: Path, file: str, changed: dict[str, Any], fact: str
) -> None:
    folder = Path(shutil.copytree(built[0], tmp_path / "run"))
    path = folder / "attempts/01" / file
    lines = path.read_text().splitlines()
    lines[119] = json.dumps(json.loads(lines[119]) | changed)
    path.write_text("\n".join(lines) + "\n")
    origin = "attempts/01/trainer/metrics.jsonl:120, where it was taken from, does not"
    assert origin in withheld(folder)[fact]


FORGED: dict[str, dict[str, Any]] = {
    "a source outside": {"sources": (Source("../secret.json", key="x"),)},
    "a line that is not there": {"sources": (Source("attempts/01/metrics.jsonl", 999, key="loss"),)},
    "a key that is not there": {"sources": (Source("attempts/01/exit.json", key="signal"),)},
    "a recipe that needs two sources": {"recipe": "paired_difference"},
    "a measure that is none": {"recipe": "task_mean", "measure": "first@many"},
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_fact_is_withheld(built: Built, name: str) -> None:
    (fact,) = computed(built[0], [replace(built[1]["metric/actor/kl_loss/last"], **FORGED[name])])
    assert fact.text == "withheld"


def test_numbers_taken_from_the_console_are_looked_up_there(tmp_path: Path) -> None:
    foreign_run(tmp_path)
    pane = tmp_path / "attempts/01/pane.log"
    pane.write_text(pane.read_text().replace("loss:2.0", "loss:2.5"))
    assert "metric/loss/first" in withheld(tmp_path)


def test_a_number_that_contradicts_its_origin_is_withheld_before_release(tmp_path: Path) -> None:
    made = attempt(tmp_path).exit().metrics([(1, {"loss": 0.125}), (2, {"loss": 0.0625})])
    rows = '{"step": 1, "loss": 0.125}\n{"step": 2, "loss": 9}\n'
    made.folder.joinpath("trainer/metrics.jsonl").write_text(rows)
    report = build_report(tmp_path, ended())
    assert report.facts["metric/loss/last"].withheld
    assert "0.0625" not in report.html.read_text().partition("Numbers that do not agree")[0]
    assert ">withheld<" in report.html.read_text()
    assert any("loss, last" in item.where for item in report.discrepancies)
    stored = {fact["id"]: fact for fact in json.loads(report.json.read_text())["facts"]}
    assert stored["metric/loss/last"]["value"] is None


def test_a_trainer_that_contradicts_its_own_task_results_is_named(tmp_path: Path) -> None:
    made = attempt(tmp_path).exit().metrics([(0, {"val/task_pass_rate@1": 0.9}), (1, {"loss": 1.0})])
    made.validations({0: {"a": [True, False], "b": [False, False]}})
    (found,) = build_report(tmp_path, ended()).discrepancies
    assert "reported 0.9" in found.what and "give 0.25" in found.what


def test_a_source_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    result_dir = tmp_path / "run"
    made = attempt(result_dir).exit()
    (tmp_path / "secret.jsonl").write_text('{"loss": 7.0}\n')
    row = {"step": 1, "values": {"loss": 7.0}, "source": {"file": "../../../secret.jsonl", "line": 1}}
    made.folder.joinpath("metrics.jsonl").write_text(json.dumps(row) + "\n")
    assert build_report(result_dir, ended()).facts["metric/loss/first"].withheld


def test_manifest_holds_raw_files_without_checkpoints_and_links(tmp_path: Path) -> None:
    made = attempt(tmp_path).exit()
    checkpoint = made.folder / "trainer/checkpoints/step_000040"
    checkpoint.mkdir(parents=True)
    (checkpoint / "model.safetensors").write_bytes(b"weights")
    (made.folder / "link").symlink_to("/etc/passwd")
    (made.folder / os.fsdecode(b"\xff.log")).write_bytes(b"hello")
    entries = {entry["path"]: entry for entry in manifest(tmp_path)}
    assert set(entries) == {"attempts/01/exit.json", "attempts/01/\\xff.log"}
    assert entries["attempts/01/\\xff.log"]["bytes"] == 5
    assert entries["attempts/01/\\xff.log"]["sha256"].startswith("2cf24dba5fb0a30e")
    for name in ("journal.jsonl", "transcript.jsonl", "approvals/0007.json", "result.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}\n")
    written = ["journal.jsonl", "transcript.jsonl", "approvals/0007.json"]
    assert [entry["path"] for entry in vouched_for(tmp_path)] == [*entries, *written]
