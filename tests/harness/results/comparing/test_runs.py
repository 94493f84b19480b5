"""What a run came to, read from its folder, and which runs count."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.blueprint.types import Blueprint, MetricSpec
from harness.results.collect import collect
from harness.results.comparing import metrics
from harness.results.comparing.runs import read_files, result_of, settled
from harness.results.comparing.types import Curve, Goal, PlannedRun, RunResult
from harness.results.facts import build_facts
from harness.results.types import Record
from harness.state import NOT_PLANNED
from tests.harness.results.comparing.made import METRIC, result
from tests.harness.results.comparing.result_folders import finish, foreign, trained
from tests.harness.results.journals import repaired_run


def read(folder: Path, metric: str = METRIC) -> RunResult:
    return result_of(read_files(PlannedRun(folder.name, "p01", 0, folder)), metric)


def test_every_validation_metric_is_the_number_of_the_runs_own_report(tmp_path: Path) -> None:
    folder = trained(tmp_path / "a", rates={0: 0.3, 20: 0.8, 40: 0.6})
    facts = build_facts(collect(folder))
    for column in ("task_pass_rate@1", "task_pass_rate@2", "unbiased_pass@4", "mean_reward"):
        found = read(folder, f"val/{column}")
        assert found.value == facts[f"val/40/{column}"].value
        assert found.source == facts[f"val/40/{column}"].sources[0]
        assert found.curve.steps == (0, 20, 40) and found.value == found.curve.values[-1]


def test_a_training_metric_is_its_last_value_and_no_mean(tmp_path: Path) -> None:
    folder = trained(tmp_path / "a")
    found = read(folder, "critic/rewards/mean")
    assert found.value == build_facts(collect(folder))["metric/critic/rewards/mean/last"].value
    assert found.source is not None and str(found.source) == "attempts/01/metrics.jsonl:40"


def test_a_metric_measured_now_and_then_is_its_last_value(tmp_path: Path) -> None:
    rows = [(step, {"loss": 1 / step}) for step in range(1, 41)]
    for step, row in rows[9::10]:
        row["accuracy"] = step / 40
    assert read(foreign(tmp_path / "a", "python t.py", rows), "accuracy").value == 1.0


def test_hours_are_those_of_all_attempts_and_repairs_are_told(tmp_path: Path) -> None:
    repaired_run(tmp_path)
    finish(tmp_path)
    found = read(tmp_path)
    ends = [json.loads((tmp_path / f"attempts/0{n}/exit.json").read_text()) for n in (1, 2, 3)]
    assert found.hours == pytest.approx(sum(end["ended_at"] - end["started_at"] for end in ends) / 3600)
    assert found.attempts == 3
    assert found.deviations[0].startswith("attempt 2: ajet.rollout.n_vllm_engine 4 → 2")
    assert found.value is not None


@pytest.mark.parametrize(
    ("outcome", "reason", "metric", "told"),
    [
        ("failed", "CUDA out of memory", METRIC, "failed: CUDA out of memory (last step 40)"),
        ("cancelled", "stopped by ada", METRIC, "cancelled: stopped by ada (last step 40)"),
        ("", "", METRIC, "has not finished (last step 40)"),
        ("succeeded", "", "val/bleu", "has no val/bleu (last step 40)"),
    ],
)
def test_why_a_run_does_not_count(tmp_path: Path, outcome: str, reason: str, metric: str, told: str) -> None:
    found = read(trained(tmp_path / "a", outcome=outcome, reason=reason), metric)
    assert (found.value, found.why_not) == (None, told)
    assert read(tmp_path / "nothing").why_not == "never started"


def test_a_last_value_that_a_lost_log_may_have_hidden_does_not_count(tmp_path: Path) -> None:
    folder = foreign(tmp_path / "a", "python t.py", [(step, {"loss": 1 / step}) for step in range(1, 41)])
    assert read(folder, "loss").value == 1 / 40
    ended = json.loads((folder / "attempts/01/exit.json").read_text())
    (folder / "attempts/01/exit.json").write_text(json.dumps(ended | {"log_lost_bytes": 1}))
    found = read(folder, "loss")
    assert (found.value, found.curve.values[-1]) == (None, 1 / 40)
    assert found.why_not == "the last loss is not known: a part of the log is lost, and rows with it"
    assert read(trained(tmp_path / "b")).value is not None


def test_damaged_files_are_no_reason_to_fail(tmp_path: Path) -> None:
    folder = trained(tmp_path / "a")
    (folder / "journal.jsonl").write_text("{\n{\n{")
    (folder / "finish.flag").write_text("[")
    (folder / "attempts/01/metrics.jsonl").write_bytes(b"\xff\x00{]\n")
    assert read(folder).why_not.startswith("has not finished")


def test_nan_in_the_last_rows_is_divergence_and_names_the_step(tmp_path: Path) -> None:
    rows = [(step, {"loss": 1.0 if step < 38 else float("nan")}) for step in range(1, 41)]
    (found,) = settled([read(foreign(tmp_path / "a", "python t.py", rows), "loss")])
    assert (found.value, found.why_not) == (None, "diverged: NaN or infinite, first at step 38")
    (found,) = settled([result("a", "p01", 0, 1e200, curve=Curve((0, 10), (0.2, 1e200)))])
    assert found.why_not == "diverged: its value is 1e+200"


def timed_out(name: str, point: str, last: int) -> RunResult:
    return result(name, point, ord(name), 0.5, outcome="timed_out", curve=Curve((0, last), (0.2, 0.5)))


def test_a_timed_out_run_counts_when_it_got_as_far_as_its_siblings() -> None:
    late, early = timed_out("b", "p01", 20), timed_out("c", "p01", 10)
    found = settled([result("a", "p01", 0, 0.5), late, early])
    assert [one.value for one in found] == [0.5, 0.5, None]
    assert found[2].why_not == "ended by its time limit: last measured at step 10, the others until step 20"
    assert all(one.value == 0.5 for one in settled([timed_out("a", "p01", 30), timed_out("b", "p02", 90)]))
    # it is measured by its own point first
    short = result("a", "p01", 0, 0.5, curve=Curve((0, 10), (0.2, 0.5)))
    long = result("b", "p02", 0, 0.5, curve=Curve((0, 100), (0.2, 0.5)))
    found = settled([short, long, early, timed_out("d", "p02", 90)])
    assert [one.value is None for one in found] == [False, False, False, True]


def test_the_leading_metric_is_chosen_or_the_only_one_that_changes(tmp_path: Path) -> None:
    def chosen(records: list[Record], plan: Blueprint) -> tuple[str, Goal | None]:
        led = metrics.choose(records, plan)
        assert led is not None
        return led.name, led.goal

    own = [collect(trained(tmp_path / name)) for name in "ab"]
    assert chosen(own, NOT_PLANNED) == (METRIC, "max")
    (tmp_path / "b/attempts/01/trainer/validation.jsonl").unlink()
    assert chosen([own[0], collect(tmp_path / "b")], NOT_PLANNED) == ("critic/rewards/mean", "max")
    both = [(step, {"loss": 1 - step / 9, "accuracy": step / 9, "lr": 0.1}) for step in range(9)]
    one = collect(foreign(tmp_path / "c", "python t.py", both))
    assert chosen([one], NOT_PLANNED) == ("accuracy", "max")
    plan = replace(NOT_PLANNED, purpose="How low does the loss get?")
    assert chosen([one], plan) == ("loss", "min")
    spec = MetricSpec((), metric="accuracy", goal="min")
    assert chosen([one], replace(plan, metrics=spec)) == ("accuracy", "min")
    odd = [(step, {"lr": 0.1, "heat": step / 9}) for step in range(9)]
    assert chosen([collect(foreign(tmp_path / "d", "python t.py", odd))], plan) == ("heat", None)
    spelled = [
        metrics.full_name(name, ["Val Loss", "val/x"]) for name in ("Val/X", "loss", "unbiased_pass@2")
    ]
    assert spelled == ["val/x", "loss", "val/unbiased_pass@2"]
    suggested = metrics.suggestion("acuracy", metrics.common([one]))
    assert suggested == "did you mean accuracy? all of them have: loss, accuracy, lr"


def test_a_metric_without_a_name_is_not_taken_where_none_is_asked_for(tmp_path: Path) -> None:
    rows = [(step, {"": 1.0, "loss": 1 / step}) for step in range(1, 4)]
    found = read(foreign(tmp_path / "a", "python t.py", rows), "")
    assert (found.value, found.why_not) == (None, "no metric to compare it by (last step 3)")
