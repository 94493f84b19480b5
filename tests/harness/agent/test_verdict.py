"""What a training owes, judged from its raw files."""

import json
from pathlib import Path

import pytest

from harness.agent.verdict import shortfall
from monitors.files import AttemptFiles

AJET = "ajet:\n  trainer_common: {val_before_train: true, test_freq: 10}\n"


def attempt(folder: Path, config: str | None, validated: list[int]) -> AttemptFiles:
    files = AttemptFiles(folder)
    files.trainer.mkdir()
    if config is not None:
        files.config.write_text(config)
    rows = [{"step": step, "task_id": "a", "rewards": [1.0], "successes": [True]} for step in validated]
    (files.trainer / "validation.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return files


@pytest.mark.parametrize(
    ("config", "validated", "rows", "last_step", "owes"),
    [
        (AJET, [0, 10, 20], 20, 20, None),
        (AJET, [0, 10], 20, 20, "step 20"),
        (AJET, [10, 20], 20, 20, "step 0"),
        (AJET, [], 0, None, "without a single metric row"),
        ("lr: 1\n", [], 5, 5, None),
        (None, [], 0, None, None),
    ],
)
def test_shortfall(
    tmp_path: Path,
    config: str | None,
    validated: list[int],
    rows: int,
    last_step: int | None,
    owes: str | None,
) -> None:
    found = shortfall({"metrics": None}, [attempt(tmp_path, config, validated)], rows, last_step)
    assert (found is None) if owes is None else (owes in (found or ""))


def test_a_foreign_command_whose_blueprint_names_metrics_owes_a_row(tmp_path: Path) -> None:
    plan = {"metrics": {"patterns": [], "first_step": None}}
    assert "metric row" in (shortfall(plan, [attempt(tmp_path, None, [])], 0, None) or "")


def test_validations_may_stand_in_the_metric_rows_instead(tmp_path: Path) -> None:
    files = attempt(tmp_path, AJET, [])
    values = [{"step": step, "values": {"val/task_pass_rate@1": 0.5}} for step in (0, 10)]
    files.metrics.write_text("".join(json.dumps(row) + "\n" for row in values) + '{"step": 1')
    assert shortfall({"metrics": None}, [files], 10, 10) is None


@pytest.mark.parametrize(("first_step", "owes"), [(11, None), (6, "step 10"), (0, "step 0, 10")])
def test_what_came_before_a_resumed_attempt_counts_up_to_its_first_step(
    tmp_path: Path, first_step: int, owes: str | None
) -> None:
    for name in ("01", "02"):
        (tmp_path / name).mkdir()
    earlier = attempt(tmp_path / "01", AJET, [0, 10])
    latest = attempt(tmp_path / "02", AJET, [20])
    rows = [{"step": step, "values": {"actor/kl_loss": 0.1}} for step in range(first_step, 21)]
    latest.metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = shortfall({"metrics": None}, [earlier, latest], len(rows), 20)
    assert (found is None) if owes is None else (owes in (found or ""))
