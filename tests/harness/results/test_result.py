"""The leading metric and the result, and positions: as they were printed, else worked out and said."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.blueprint import Blueprint, MetricSpec
from harness.results.collect import collect
from harness.results.facts import build_facts
from harness.results.leading import NO_GOAL, leading_metric
from harness.results.report import build_report
from harness.results.types import Record
from monitors.logs import Line
from monitors.metrics import MetricPatterns
from monitors.metrics.parser import MetricReader
from monitors.metrics_file import MetricsFile
from tests.harness.results.journals import Story, ended
from tests.harness.results.synthetic import attempt
from tests.harness.runs import planned


def plan(purpose: str = "", **metrics: Any) -> Blueprint:
    return planned({"purpose": purpose, "metrics": MetricSpec((), **metrics) if metrics else None})


def withheld(folder: Path) -> dict[str, str]:
    return {name: fact.withheld for name, fact in build_facts(collect(folder)).items() if fact.withheld}


# --- D1: positions ------------------------------------------------------------------------------------------


def trl_rows(folder: Path) -> Path:
    """What TRL prints: dicts with an epoch and no step."""
    rows = [{"epoch": at * 0.04, "values": {"loss": 2 / at, "grad_norm": 1.2}} for at in range(1, 26)]
    lines = [str({**row["values"], "epoch": row["epoch"]}) for row in rows]
    attempt(folder).exit().printed(*lines, rows=rows)
    return folder


def test_d1_rows_without_a_step_stand_at_their_epoch_and_are_not_withheld(tmp_path: Path) -> None:
    record = collect(trl_rows(tmp_path))
    assert record.axis == "epoch"
    assert record.series["loss"].positions.tolist() == [at * 0.04 for at in range(1, 26)]
    report = build_report(tmp_path, ended())
    assert report.discrepancies == ()
    last = report.facts["attempt/1/last_step"]
    assert (last.label, last.recipe, last.value) == ("attempt 1: last epoch", "value", 1.0)
    assert "25 metric rows up to epoch 1, 1 attempt" in report.headline[-1]
    figure = json.loads((tmp_path / "figures/metric_01_loss.json").read_text())
    assert figure["x"] == "epoch"


def test_d1_rows_that_name_neither_step_nor_epoch_stand_at_their_row_number(tmp_path: Path) -> None:
    lines = [json.dumps({"loss": 1 / at}) for at in range(1, 4)]
    rows = [{"values": json.loads(line)} for line in lines]
    attempt(tmp_path).exit().printed(*lines, rows=rows)
    report = build_report(tmp_path, ended())
    assert report.discrepancies == ()
    fact = report.facts["attempt/1/last_step"]
    assert (fact.label, fact.recipe, fact.value) == ("attempt 1: last row number", "row_number", 3.0)
    assert report.facts["metric/loss/last"].note == "row number 3"
    assert "first row number | last row number" in (tmp_path / "result.md").read_text()


def test_d1_a_row_is_held_to_its_own_name_and_not_to_any_equal_number(tmp_path: Path) -> None:
    line = json.dumps({"loss": 0.5, "acc": 0.25})
    attempt(tmp_path).exit().printed(line, rows=[{"values": {"loss": 0.25, "acc": 0.25}}])
    assert "where it was taken from, does not" in withheld(tmp_path)["metric/loss/last"]
    assert "metric/acc/last" not in withheld(tmp_path)


def test_d1_a_position_worked_out_from_epoch_and_step_is_worked_out_again(tmp_path: Path) -> None:
    rows = [
        {"step": step, "epoch": float(epoch), "values": {"loss": 1 / (epoch * step)}}
        for epoch in (1, 2)
        for step in (10, 20, 30)
    ]
    lines = [json.dumps({"step": row["step"], "epoch": row["epoch"], **row["values"]}) for row in rows]
    attempt(tmp_path).exit().printed(*lines, rows=rows)
    record = collect(tmp_path)
    assert (record.axis, record.series["loss"].positions.tolist()) == ("step", [10, 20, 30, 40, 50, 60])
    fact = build_facts(record)["attempt/1/last_step"]
    assert (fact.recipe, fact.value, fact.withheld) == ("position", 60.0, "")


def test_d1_rows_found_by_the_plans_own_patterns_are_found_again_by_them(tmp_path: Path) -> None:
    pattern = r"it (?P<step>\d+): (?P<loss>[\d.]+) nats"
    row = {"step": 7, "values": {"loss": 0.5}}
    attempt(tmp_path).exit().printed("it 7: 0.5 nats, no more", rows=[row])
    spec = {"patterns": [pattern], "first_step": None}
    story = Story().created("playbook", metrics=spec).attempt(1).ended()
    assert build_report(tmp_path, story.entries).discrepancies == ()
    assert len(build_report(tmp_path, ended()).discrepancies) > 0


def watched(folder: Path, *lines: str) -> Record:
    """A run whose log is these lines, with the rows that a watch finds in it."""
    reader, found = MetricReader(), []
    for number, line in enumerate(lines, start=1):
        found += reader.read(Line(number, line))
    made = attempt(folder).exit()
    (made.folder / "pane.log").write_text("".join(f"{line}\n" for line in lines))
    written = MetricsFile(made.folder / "metrics.jsonl")
    for one in (*found, *reader.end()):
        written.add(one.row, "pane.log", one.line, one.first_line)
    written.publish()
    written.close()
    return collect(folder)


def test_d1_rows_that_need_earlier_lines_are_read_with_them(tmp_path: Path) -> None:
    table = ("| step | loss | acc |", "|------|------|-----|", "| 10 | 0.5 | 0.25 |", "| 20 | 0.4 | 0.5 |")
    record = watched(tmp_path, "begins", *table)
    assert record.series["loss"].positions.tolist() == [10.0, 20.0]
    assert withheld(tmp_path) == {}
    pane = tmp_path / "attempts/01/pane.log"
    pane.write_text(pane.read_text().replace("| 20 | 0.4", "| 20 | 0.3"))
    assert "metric/loss/last" in withheld(tmp_path)
    assert "metric/loss/first" not in withheld(tmp_path)


def test_d1_keras_rows_stand_at_the_epoch_of_their_heading(tmp_path: Path) -> None:
    lines = [
        line
        for epoch in (1, 2)
        for line in (f"Epoch {epoch}/2", f"60/60 - 1s - 9ms/step - loss: {1 / epoch} - val_loss: {2 / epoch}")
    ]
    record = watched(tmp_path, *lines)
    assert (record.axis, record.series["val_loss"].positions.tolist()) == ("epoch", [1.0, 2.0])
    report = build_report(tmp_path, ended())
    assert report.discrepancies == ()
    assert report.facts["val/2/val_loss"].value == 1.0
    assert report.headline[-1].startswith("2 epochs, ")


def test_a_file_with_steps_only_as_earlier_versions_wrote_it_is_read(tmp_path: Path) -> None:
    attempt(tmp_path).exit().metrics([(step, {"loss": 1.0 / step}) for step in (1, 2, 3)])
    record = collect(tmp_path)
    assert (record.axis, record.series["loss"].positions.tolist()) == ("step", [1.0, 2.0, 3.0])


def test_an_attempt_that_counts_otherwise_is_left_out_and_named(tmp_path: Path) -> None:
    attempt(tmp_path, 1).printed(*['{"loss": 1.0}'] * 2, rows=[{"values": {"loss": 1.0}}] * 2)
    attempt(tmp_path, 2).metrics([(1, {"loss": 0.5})])
    record = collect(tmp_path)
    assert (record.axis, record.series["loss"].values.tolist()) == ("step", [0.5])
    assert "counted by row number, a later attempt by step" in record.problems[0]


# --- D21: counts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (range(10), "10 steps, "),
        ([1], "1 step, "),
        (range(0, 1000, 100), "10 metric rows up to step 900, "),
    ],
)
def test_d21_steps_are_counted_and_not_the_last_number(tmp_path: Path, steps: Any, words: str) -> None:
    attempt(tmp_path).exit().metrics([(step, {"loss": 1.0 + step}) for step in steps])
    assert build_report(tmp_path, ended()).headline[-1].startswith(words)


def test_d21_a_validation_before_the_first_step_is_no_step(tmp_path: Path) -> None:
    rows = [(0, {"val/task_pass_rate@1": 0.2}), *((step, {"loss": 1.0 / step}) for step in (1, 2))]
    attempt(tmp_path).exit().metrics(rows)
    assert build_report(tmp_path, ended()).headline[-1].startswith("2 steps, ")


def test_d21_steps_of_all_attempts_are_counted_once(tmp_path: Path) -> None:
    attempt(tmp_path, 1).exit(1).metrics([(step, {"loss": 1.0 / step}) for step in range(1, 8)])
    attempt(tmp_path, 2).exit().metrics([(step, {"loss": 1.0 / step}) for step in range(5, 13)])
    fact = build_report(tmp_path, ended()).facts["key/steps"]
    assert (fact.value, fact.label, fact.recipe) == (12.0, "steps", "position_count")


# --- which metric leads -------------------------------------------------------------------------------------

HF = ("loss", "grad_norm", "learning_rate", "eval_loss", "eval_accuracy", "eval_runtime")
OURS = (
    "actor/pg_loss",
    "critic/rewards/mean",
    "val/task_pass_rate@1",
    "val/unbiased_pass@4",
    "val/mean_reward",
)


@pytest.mark.parametrize(
    ("told", "names", "leads", "goal"),
    [
        (plan("Which learning rate gives the best eval_accuracy?"), HF, "eval_accuracy", "max"),
        (plan("Does the accuracy rise?"), HF, "eval_accuracy", "max"),
        (plan("Is the loss lower with warm-up?"), HF, "eval_loss", "min"),
        (plan(), HF, "eval_accuracy", "max"),
        (plan(), ("loss", "lr"), "loss", "min"),
        (plan(metric="eval_runtime"), HF, "eval_runtime", None),
        (plan(metric="eval_runtime", goal="min"), HF, "eval_runtime", "min"),
        (plan(goal="min"), ("reward",), "reward", "min"),
        (plan("Does a larger KL loss coefficient help?"), OURS, "val/task_pass_rate@1", "max"),
        (plan(metric="mean_reward"), OURS, "val/mean_reward", "max"),
    ],
)
def test_the_metric_that_leads(told: Blueprint, names: Any, leads: str, goal: str | None) -> None:
    found = leading_metric(told, names)
    assert found is not None and (found.name, found.goal) == (leads, goal)


def test_how_a_metric_came_to_lead_is_said() -> None:
    def note(told: Blueprint, *names: str) -> str:
        found = leading_metric(told, names)
        assert found is not None
        return found.note

    assert note(plan("Does eval_loss fall?"), *HF) == ""
    assert note(plan("Try it."), *HF).startswith("chosen by its name")
    assert note(plan(metric="eval_acuracy"), *HF).endswith("which no row has; did you mean eval_accuracy?")
    assert note(plan(metric="lr"), "lr", "loss") == NO_GOAL
    assert leading_metric(plan("Does it work?"), ("a", "b")) is None


# --- the result ---------------------------------------------------------------------------------------------


def hugging_face(folder: Path, purpose: str) -> Record:
    """Rows of a Trainer: losses with an epoch, an evaluation after each epoch, a summary."""
    rows: list[dict[str, Any]] = []
    for epoch, accuracy in ((1.0, 0.5), (2.0, 0.9), (3.0, 0.8)):
        rows.append({"epoch": epoch - 0.5, "values": {"loss": 1 / epoch, "learning_rate": 1e-4 / epoch}})
        evaluated = {"eval_loss": 1.5 / epoch, "eval_accuracy": accuracy, "eval_runtime": 0.3}
        rows.append({"epoch": epoch, "values": evaluated})
    lines = [str({**row["values"], "epoch": row["epoch"]}) for row in rows]
    attempt(folder).exit().printed(*lines, rows=rows)
    Story().created("playbook", purpose=purpose).attempt(1).ended().write(folder)
    return collect(folder)


def test_d18_a_trainers_evaluations_are_a_table_and_the_metric_asked_about_leads(tmp_path: Path) -> None:
    hugging_face(tmp_path, "Which `eval_accuracy` does it reach?")
    report = build_report(
        tmp_path, Story().created(purpose="Which `eval_accuracy`?").attempt(1).ended().entries
    )
    assert report.discrepancies == ()
    assert report.headline[1] == "eval_accuracy 0.5 → 0.8 (epoch 3); highest 0.9, picked afterwards"
    key = [name for name in report.facts if name.startswith("key/")]
    assert key[:3] == ["key/result_start", "key/result_end", "key/result_best"]
    assert not any("validation" in line or "KL" in line or "Throughput" in line for line in report.missing)
    result = (tmp_path / "result.md").read_text()
    assert "| epoch | eval_loss | eval_accuracy | attempt | source |" in result
    assert "| 3 | 0.5 | 0.8 | 1 |" in result
    first = json.loads((tmp_path / "result.json").read_text())["figures"][0]
    assert first["title"] == "eval_accuracy"


def test_the_result_is_one_object_for_the_end_line_the_flag_and_the_lists(tmp_path: Path) -> None:
    hugging_face(tmp_path, "")
    story = Story().created("playbook", purpose="eval_accuracy?").attempt(1).ended()
    result = build_report(tmp_path, story.entries).result
    assert result == json.loads((tmp_path / "result.json").read_text())["result"]
    assert result is not None
    assert (result["metric"], result["goal"], result["value"], result["at"]) == (
        "eval_accuracy",
        "max",
        0.8,
        "epoch 3",
    )
    assert result["best"] == {"value": 0.9, "text": "0.9", "fact": "key/result_best"}


def test_d24_inline_code_of_the_purpose_is_code_and_nothing_else_of_it_is_markup(tmp_path: Path) -> None:
    attempt(tmp_path)
    story = Story().created(purpose="Does `lr_max` of 1e-3 *really* help?").ended("cannot_run", "x")
    build_report(tmp_path, story.entries)
    assert "Does `lr_max` of 1e-3 \\*really\\* help?" in (tmp_path / "result.md").read_text()


def test_a_run_without_rows_proposes_an_expression_that_finds_them(tmp_path: Path) -> None:
    log = [f"cycle {number} :: flurb {number * 0.5} wobble {number * 0.25 + 1}" for number in range(1, 9)]
    attempt(tmp_path).exit().printed(*log, rows=[])
    report = build_report(tmp_path, ended())
    (line,) = [line for line in report.headline if "in [exp_metrics] this expression finds 8: " in line]
    expression = line.rpartition("finds 8: ")[2]
    row = MetricPatterns.compile([expression]).parse(log[3])
    assert row is not None and 2.0 in row.values.values()
    shown = (tmp_path / "result.md").read_text()
    assert f"## [exp_metrics]\n- `{expression}`" in shown
    assert "Metrics were not found" in report.html.read_text()


def test_a_failed_run_or_one_with_rows_proposes_nothing(tmp_path: Path) -> None:
    log = [f"cycle {number} :: flurb {number * 0.5}" for number in range(1, 9)]
    attempt(tmp_path / "a").exit(1).printed(*log, rows=[])
    assert not any("expression" in line for line in build_report(tmp_path / "a", ended("failed")).headline)
    attempt(tmp_path / "b").exit().printed(*log, '{"loss": 1}', rows=[{"values": {"loss": 1.0}, "line": 9}])
    assert not any("expression" in line for line in build_report(tmp_path / "b", ended()).headline)


def test_a_validation_metric_that_the_purpose_names_leads_everywhere(tmp_path: Path) -> None:
    """Also in a training by rewards, whose own validations have a table and a figure of their own."""
    rows = [
        (step, {"reward": 0.1, "val/accuracy": step / 10, "val/task_pass_rate@1": 0.5}) for step in (1, 2, 3)
    ]
    attempt(tmp_path).exit().metrics(rows)
    entries = Story().created(purpose="Does val/accuracy rise?").attempt(1).ended().write(tmp_path)
    report = build_report(tmp_path, entries)
    told = json.loads(report.json.read_text())
    assert (told["result"]["metric"], told["result"]["value"]) == ("val/accuracy", 0.3)
    assert told["figures"][0]["title"] == "val/accuracy"
    shown = (tmp_path / "result.md").read_text()
    assert "| `val/accuracy` | 0.1 | 0.3 |" in shown.split("## All metrics")[1]
    assert "val/accuracy, last validation (step 3) | 0.3" in shown.split("## Key figures")[1]
