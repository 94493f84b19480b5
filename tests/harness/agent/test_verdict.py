"""What a training owes, judged from its raw files."""

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from harness.actions import StopReason
from harness.agent.verdict import Shortfall, shortfall, verdict
from harness.diagnosis import ends
from harness.outcome import Outcome
from harness.state import AttemptState
from monitors.files import AttemptFiles
from tests.harness.runs import end, found, state_with

AJET = "ajet:\n  trainer_common: {val_before_train: true, test_freq: 10}\n"


def attempt(folder: Path, config: str | None, validated: list[int]) -> AttemptFiles:
    files = AttemptFiles(folder)
    files.trainer.mkdir(parents=True)
    if config is not None:
        files.config.write_text(config)
    rows = [{"step": step, "task_id": "a", "rewards": [1.0], "successes": [True]} for step in validated]
    (files.trainer / "validation.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return files


def write_rows(files: AttemptFiles, rows: list[dict[str, float]], first_step: int = 1) -> AttemptFiles:
    """Add metric rows of this many steps from this one on."""
    records = [{"step": step, "values": values} for step, values in enumerate(rows, start=first_step)]
    with files.metrics.open("a") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
    return files


def trained(folder: Path, rows: list[dict[str, float]], first_step: int = 1) -> AttemptFiles:
    return write_rows(attempt(folder, None, []), rows, first_step)


def owes_it(found: Shortfall | None, owes: str | None) -> bool:
    return (found is None) if owes is None else (found is not None and owes in found.text)


@pytest.mark.parametrize(
    ("config", "names_metrics", "validated", "rows", "last_step", "owes"),
    [
        (AJET, False, [0, 10, 20], 20, 20, None),
        (AJET, False, [0, 10], 20, 20, "step 20"),
        (AJET, False, [10, 20], 20, 20, "step 0"),
        (AJET, False, [], 0, None, "without a single metric row"),
        ("lr: 1\n", False, [], 5, 5, None),
        (None, False, [], 0, None, None),
        (None, True, [], 0, None, "metric row"),
    ],
)
def test_shortfall(
    tmp_path: Path,
    config: str | None,
    names_metrics: bool,
    validated: list[int],
    rows: int,
    last_step: int,
    owes: str | None,
) -> None:
    found = shortfall(names_metrics, [attempt(tmp_path, config, validated)], rows, last_step)
    assert owes_it(found, owes)


def test_validations_may_stand_in_the_metric_rows_instead(tmp_path: Path) -> None:
    files = attempt(tmp_path, AJET, [])
    values = [{"step": step, "values": {"val/task_pass_rate@1": 0.5}} for step in (0, 10)]
    files.metrics.write_text("".join(json.dumps(row) + "\n" for row in values) + '{"step": 1')
    assert shortfall(False, [files], 10, 10) is None


@pytest.mark.parametrize(("first_step", "owes"), [(11, None), (6, "step 10"), (0, "step 0, 10")])
def test_what_came_before_a_resumed_attempt(tmp_path: Path, first_step: int, owes: str | None) -> None:
    earlier = attempt(tmp_path / "01", AJET, [0, 10])
    rows = [{"actor/kl_loss": 0.1}] * (21 - first_step)
    latest = write_rows(attempt(tmp_path / "02", AJET, [20]), rows, first_step)
    found = shortfall(False, [earlier, latest], len(rows), 20)
    assert owes_it(found, owes)


@pytest.mark.parametrize(
    ("why", "words"),
    [
        ("disk full", "9 bytes of its log were lost, as the disk was full"),
        ("file size limit", "9 bytes of its log were lost, as files may not be larger here"),
        ("log limit", "9 bytes of its log were lost, as it had grown to the largest log that is kept"),
        ("Input/output error", "9 bytes of its log were lost (Input/output error)"),
        ("", "9 bytes of its log were lost"),
    ],
)
@pytest.mark.parametrize("given", [{"complete": True}, {"reason": "deadline"}, {"status": 1}])
def test_what_is_lost_of_the_log_is_said_and_changes_no_outcome(
    given: dict[str, Any], why: str, words: str
) -> None:
    whole, cut = (
        verdict(state_with(attempts=(AttemptState(1, "s", "a", "", ended=end({**given, **lost})),)), 0.0)
        for lost in ({}, {"log_lost_bytes": 9, "log_lost_why": why})
    )
    assert (cut.outcome, cut.reason) == (whole.outcome, f"{whole.reason}; {words}")


@pytest.mark.parametrize("stopped", [None, *get_args(StopReason)])
@pytest.mark.parametrize(
    "reason", ["exited", "signalled", "deadline", "stopped", "prepare_failed", "could_not_start", "lost", ""]
)
@pytest.mark.parametrize(
    "given", [{}, {"complete": True}, {"log_lost_bytes": 9, "log_lost_why": "log limit"}]
)
def test_no_reason_is_a_word_of_the_program(given: dict[str, Any], reason: str, stopped: str | None) -> None:
    ended = end({"reason": reason, "status": 1, **given})
    cause = found({"cause": ends.read(ended, stopped).cause})
    attempts = (AttemptState(1, "s", "a", "", ended=ended, stop_reason=stopped, diagnosis=cause),)
    assert not re.search("[a-z]_[a-z]", verdict(state_with(attempts=attempts), 0.0).reason)


FAMILIES = {
    "loss is nan at step 7": "numerics_nan",
    "reward is exactly 0 in all 10 rows": "silent_bad_metrics",
}


@pytest.mark.parametrize(
    ("rows", "owes"),
    [
        ([{"reward": 0.0, "loss": 0.1}] * 10, "reward is exactly 0 in all 10 rows"),
        ([{"reward": 0.0, "loss": 0.1}] * 9, None),
        ([{"reward": 0.0, "loss": 0.1}] * 30 + [{"reward": 0.1}], None),
        ([{"reward": 1.0, "loss": 0.0}] * 200, None),
        ([{"reward": -1.0}] * 30, None),
        ([{"reward": 0.0, "val/accuracy": 0.4}] * 30, None),
        ([{"loss": 2.0 - step / 100} for step in range(150)], None),
        ([{"loss": 0.5}] * 5 + [{"loss": float("nan")}] * 2, "loss is NaN at step 7"),
        ([{"loss": float("nan")}] * 5 + [{"loss": 0.5}], None),
        ([{"loss": 0.0, "grad_norm": float("nan")}] * 10, "grad_norm is NaN"),
        ([{"loss": 0.0, "grad_norm": 0.0}] * 10, "nothing is learned"),
        ([{"reward": 0.5 + step % 9 / 50, "grad_norm": 0.0} for step in range(12)], None),
        ([{"loss": 30.0 + step, "grad_norm": 1.0} for step in range(4)] + [{"loss": 1e25}] * 6, "diverged"),
        ([{"loss": 0.5, "eval_loss": float("nan")}] * 2, "all results of the last 2 validations are NaN"),
        ([{"reward": 0.5 + step % 9 / 50, "val/accuracy": 0.0} for step in range(60)], None),
    ],
)
def test_numbers_are_worth_something(tmp_path: Path, rows: list[dict[str, float]], owes: str | None) -> None:
    found = shortfall(False, [trained(tmp_path, rows)], len(rows), len(rows))
    assert owes_it(found, owes)
    if owes in FAMILIES:
        assert found is not None and found.family == FAMILIES[owes]


def test_rewards_of_an_attempt_before_count_up_to_the_first_step_of_the_next(tmp_path: Path) -> None:
    rewarded = [{"reward": 0.2 + step % 4 / 10} for step in range(30)]
    earlier = trained(tmp_path / "01", rewarded)
    later = trained(tmp_path / "02", [{"reward": 0.0}] * 12, first_step=26)
    assert shortfall(False, [earlier, later], 12, 37) is None
    from_start = trained(tmp_path / "03", [{"reward": 0.0}] * 12)
    owed = shortfall(False, [earlier, from_start], 12, 12)
    assert owed is not None and "exactly 0" in owed.text


@pytest.mark.parametrize("last_is_worthless", [True, False])
def test_of_a_command_begun_anew_only_the_last_run_counts(tmp_path: Path, last_is_worthless: bool) -> None:
    runs = [[{"reward": 0.0}] * 12, [{"reward": 0.2 + step % 4 / 10} for step in range(30)]]
    first, last = runs[:: -1 if last_is_worthless else 1]
    files = write_rows(trained(tmp_path, first), last)
    owes = "exactly 0 in all 12 rows" if last_is_worthless else None
    assert owes_it(shortfall(False, [files], 42, len(last)), owes)


@pytest.mark.parametrize(
    ("reached", "words"),
    [
        ("epoch 20", "the time limit was reached after epoch 20"),
        ("row number 15", "the time limit was reached after row number 15"),
        ("", "the time limit was reached"),
    ],
)
def test_d21_a_time_limit_names_how_far_the_run_came(reached: str, words: str) -> None:
    ended = end({"reason": "deadline", "status": 143, "reached": reached})
    last = AttemptState(1, "ajet_x-01", "a-1", "first", launched_at=1.0, ended=ended)
    found = verdict(state_with(attempts=(last,), deadline_at=100.0), 200.0)
    assert (found.outcome, found.reason) == (Outcome.TIMED_OUT, words)
