"""A number that no longer stands where the report says is found, whatever was changed."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.results.report import build_report
from harness.results.verify import fact_from_json, fact_to_json
from harness.results.verifying.fingerprints import manifest, vouched_for
from harness.results.verifying.reported import check_reported
from tests.harness.results.synthetic import attempt, foreign_run, successful_run, summary


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    result_dir = tmp_path_factory.mktemp("built")
    build_report(result_dir, successful_run(result_dir, tasks=40))
    assert check_reported(result_dir).discrepancies == ()
    return result_dir


@pytest.fixture
def run(built: Path, tmp_path: Path) -> Path:
    """A finished result folder to tamper with."""
    return Path(shutil.copytree(built, tmp_path / "run"))


def edit(path: Path, change: Callable[[str], str]) -> None:
    before = path.read_text()
    after = change(before)
    assert after != before
    path.write_text(after)


def change_line(number: int, change: Callable[[dict], None]) -> Callable[[str], str]:
    def changed(text: str) -> str:
        lines = text.splitlines()
        data = json.loads(lines[number - 1])
        change(data)
        lines[number - 1] = json.dumps(data)
        return "\n".join(lines) + "\n"

    return changed


def test_a_changed_metric_row_is_found_by_its_number(run: Path) -> None:
    edit(
        run / "attempts/01/metrics.jsonl",
        change_line(120, lambda row: row["values"].update({"critic/rewards/mean": 0.99})),
    )
    found = {discrepancy.where: discrepancy.what for discrepancy in check_reported(run).discrepancies}
    assert "metric/critic/rewards/mean/last" in found
    assert "key/reward_recent" in found
    assert "changed since" in found["attempts/01/metrics.jsonl"]


def test_a_changed_trainer_file_contradicts_the_row_taken_from_it(run: Path) -> None:
    edit(
        run / "attempts/01/trainer/metrics.jsonl",
        change_line(120, lambda row: row.update({"actor/kl_loss": 0.0})),
    )
    found = {discrepancy.where: discrepancy.what for discrepancy in check_reported(run).discrepancies}
    assert "attempts/01/trainer/metrics.jsonl:120, where it was taken from, does not" in found["key/kl_last"]


def test_one_flipped_episode_is_found(run: Path) -> None:
    edit(
        run / "attempts/01/trainer/validation.jsonl",
        change_line(160, lambda row: row["successes"].__setitem__(0, not row["successes"][0])),
    )
    assert {"key/pass_rate_end", "key/pass_rate_change"} <= {
        item.where for item in check_reported(run).discrepancies
    }


@pytest.mark.parametrize(
    "name",
    [
        "result.md",
        "report.html",
        "validation.md",
        "trial_and_error.md",
        "blueprint.md",
        "attempts/01/config.yaml",
    ],
)
def test_any_edited_document_or_raw_file_is_found(run: Path, name: str) -> None:
    edit(run / name, lambda text: text + " ")
    assert [item.where for item in check_reported(run).discrepancies] == [name]


def test_a_forged_result_json_is_found(run: Path) -> None:
    def forge(text: str) -> str:
        result = json.loads(text)
        fact = next(fact for fact in result["facts"] if fact["id"] == "key/pass_rate_end")
        fact["value"] += 0.01
        next(f for f in result["facts"] if f["id"] == "key/pass_rate_start")["interval_95"]["low"] -= 0.01
        return json.dumps(result)

    edit(run / "result.json", forge)
    found = {item.where for item in check_reported(run).discrepancies}
    assert {"key/pass_rate_end", "key/pass_rate_start", "result.json"} <= found


def test_missing_files_are_found(run: Path) -> None:
    (run / "attempts/01/exit.json").unlink()
    found = {item.where: item.what for item in check_reported(run).discrepancies}
    assert found["attempts/01/exit.json"] == "the file is gone"
    assert "not there any more" in found["attempt/1/status"]


def test_numbers_taken_from_the_console_are_looked_up_there(tmp_path: Path) -> None:
    build_report(tmp_path, foreign_run(tmp_path))
    assert check_reported(tmp_path).discrepancies == ()
    edit(tmp_path / "attempts/01/pane.log", lambda text: text.replace("loss:2.0", "loss:2.5"))
    assert "metric/loss/first" in {item.where for item in check_reported(tmp_path).discrepancies}


def test_a_number_that_contradicts_its_origin_is_withheld_before_release(tmp_path: Path) -> None:
    made = attempt(tmp_path).exit().metrics([(1, {"loss": 0.125}), (2, {"loss": 0.0625})])
    made.folder.joinpath("trainer/metrics.jsonl").write_text(
        '{"step": 1, "loss": 0.125}\n{"step": 2, "loss": 9}\n'
    )
    report = build_report(tmp_path, summary())
    assert report.facts["metric/loss/last"].withheld
    assert "0.0625" not in report.html.read_text().partition("Numbers that do not agree")[0]
    assert ">withheld<" in report.html.read_text()
    assert any("loss, last" in item.where for item in report.discrepancies)
    stored = {fact["id"]: fact for fact in json.loads(report.json.read_text())["facts"]}
    assert stored["metric/loss/last"]["value"] is None


def test_a_trainer_that_contradicts_its_own_task_results_is_named(tmp_path: Path) -> None:
    made = attempt(tmp_path).exit().metrics([(0, {"val/task_pass_rate@1": 0.9}), (1, {"loss": 1.0})])
    made.validations({0: {"a": [True, False], "b": [False, False]}})
    (found,) = build_report(tmp_path, summary()).discrepancies
    assert "reported 0.9" in found.what and "give 0.25" in found.what


def test_manifest_holds_raw_files_without_checkpoints_and_links(tmp_path: Path) -> None:
    made = attempt(tmp_path).exit()
    checkpoint = made.folder / "trainer/checkpoints/step_000040"
    checkpoint.mkdir(parents=True)
    (checkpoint / "model.safetensors").write_bytes(b"weights")
    (made.folder / "link").symlink_to("/etc/passwd")
    made.pane("hello")
    entries = {entry["path"]: entry for entry in manifest(tmp_path)}
    assert set(entries) == {"attempts/01/exit.json", "attempts/01/pane.log"}
    assert entries["attempts/01/pane.log"]["bytes"] == 5
    assert entries["attempts/01/pane.log"]["sha256"].startswith("2cf24dba5fb0a30e")


def test_the_end_vouches_for_all_that_was_said_too(tmp_path: Path) -> None:
    attempt(tmp_path).exit()
    for name in ("journal.jsonl", "transcript.jsonl", "approvals/0007.json", "result.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}\n")
    paths = [entry["path"] for entry in vouched_for(tmp_path)]
    said = ["journal.jsonl", "transcript.jsonl", "approvals/0007.json"]
    assert paths == ["attempts/01/exit.json", *said]


def test_a_source_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    result_dir = tmp_path / "run"
    made = attempt(result_dir).exit()
    (tmp_path / "secret.jsonl").write_text('{"loss": 7.0}\n')
    row = {"step": 1, "values": {"loss": 7.0}, "source": {"file": "../../../secret.jsonl", "line": 1}}
    made.folder.joinpath("metrics.jsonl").write_text(json.dumps(row) + "\n")
    assert build_report(result_dir, summary()).facts["metric/loss/first"].withheld


def test_facts_survive_json(run: Path) -> None:
    for data in json.loads((run / "result.json").read_text())["facts"]:
        assert fact_to_json(fact_from_json(data)) == data
