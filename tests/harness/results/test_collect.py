"""Merging attempts and reading damaged files, against a brute-force fold."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.results.collect import collect
from harness.results.report import build_report
from harness.results.types import Source
from tests.harness.results.journals import ended
from tests.harness.results.synthetic import attempt

numbers = st.floats(allow_nan=False, width=32)
row = st.tuples(st.integers(0, 12), st.dictionaries(st.sampled_from("abc"), numbers))
rows = st.lists(row, max_size=12).map(lambda found: sorted(found, key=lambda row: row[0]))


@settings(max_examples=60, deadline=None)
@given(attempts=st.lists(rows, max_size=4))
def test_merging_is_a_fold(attempts: list[list], tmp_path_factory: pytest.TempPathFactory) -> None:
    result_dir = tmp_path_factory.mktemp("merge")
    expected: dict[int, dict[str, tuple[float, int, int]]] = {}
    for number, written in enumerate(attempts, start=1):
        attempt(result_dir, number).metrics(written) if written else attempt(result_dir, number)
        if written:
            first = min(step for step, _ in written)
            expected = {step: values for step, values in expected.items() if step < first}
        for line, (step, values) in enumerate(written, start=1):
            cells = expected.setdefault(step, {})
            cells.update({key: (value, number, line) for key, value in values.items()})
    record = collect(result_dir)
    for key in "abc":
        want = [(step, *values[key]) for step, values in sorted(expected.items()) if key in values]
        series = record.series.get(key)
        columns = [series.positions, series.values, series.attempts, series.lines] if series else []
        assert list(zip(*(column.tolist() for column in columns), strict=True)) == want


def test_torn_and_foreign_lines_are_passed_over_and_named(tmp_path: Path) -> None:
    made = attempt(tmp_path)
    good = json.dumps({"step": 1, "values": {"loss": 2.0, "name": "x", "flag": True, "bad": float("nan")}})
    rest = '[1, 2]\n{"step": 2}\nnot json\n{"step": 3, "values": {"loss": 1.0}'
    made.folder.joinpath("metrics.jsonl").write_text(f"{good}\n\n{rest}")
    record = collect(tmp_path)
    assert record.series["loss"].values.tolist() == [2.0]
    assert set(record.series) == {"loss", "bad"}
    assert math.isnan(record.series["bad"].values[0])
    places = [problem.partition(":")[2].partition(":")[0] for problem in record.problems]
    assert places == ["3", "4", "5", "6"]
    assert "cut off" in record.problems[-1]


def test_rows_without_a_step_are_counted(tmp_path: Path) -> None:
    made = attempt(tmp_path)
    lines = [json.dumps({"step": None, "values": {"loss": value}}) for value in (3.0, 2.0, 1.0)]
    made.folder.joinpath("metrics.jsonl").write_text("\n".join(lines) + "\n")
    series = collect(tmp_path).series["loss"]
    assert series.positions.tolist() == [1, 2, 3]
    assert series.source(-1) == Source("attempts/01/metrics.jsonl", 3, key="loss")


def test_validations_of_a_later_attempt_replace_those_from_its_first_step_on(tmp_path: Path) -> None:
    first = attempt(tmp_path, 1).metrics([(1, {"a": 1.0}), (80, {"a": 1.0})])
    first.validations({0: {"t": [True]}, 40: {"t": [False]}, 80: {"t": [False]}})
    second = attempt(tmp_path, 2).metrics([(41, {"a": 2.0})])
    second.validations({80: {"t": [True]}})
    evaluations = collect(tmp_path).evaluations
    assert [(e.position, e.attempt) for e in evaluations] == [(0, 1), (40, 1), (80, 2)]
    assert evaluations[2].tasks[0].successes == (True,)


def test_a_table_alone_gives_reported_numbers_with_their_lines(tmp_path: Path) -> None:
    made = attempt(tmp_path)
    made.folder.joinpath("validation.md").write_text(
        "# Validation\n\n| step | pass_n | task_pass_rate@1 | @2 |\n|---|---:|---|---|\n"
        "| 0 | 4 | 0.25 | 0.5 |\n| 5 | 4 | x | 1 |\n"
    )
    start, end = collect(tmp_path).evaluations
    assert start.tasks == ()
    assert start.reported["task_pass_rate@2"].value == 0.5
    assert start.reported["task_pass_rate@2"].source == Source("attempts/01/validation.md", 5, key="@2")
    assert "task_pass_rate@1" not in end.reported


def test_a_metric_whose_rows_were_all_replaced_is_gone(tmp_path: Path) -> None:
    rows = [(step, {"loss": 1.0} | ({"timing_s/testing": 0.1} if step == 4 else {})) for step in range(1, 6)]
    attempt(tmp_path, 1).metrics(rows).exit(1)
    attempt(tmp_path, 2).metrics([(1, {"loss": 1.0}), (2, {"loss": 0.9})]).exit()
    assert set(collect(tmp_path).series) == {"loss"}
    assert build_report(tmp_path, ended()).discrepancies == ()


def test_an_attempt_that_went_on_from_a_checkpoint_keeps_that_checkpoints_validation(tmp_path: Path) -> None:
    tried = {"a": [True, False], "b": [True, True]}
    checkpoint = (2, {"loss": 0.9, "val/task_pass_rate@1": 0.75})
    first = attempt(tmp_path, 1).metrics([(0, {}), (1, {"loss": 1.0}), checkpoint]).exit(143)
    first.validations({0: tried, 2: tried})
    attempt(tmp_path, 2).metrics([checkpoint, (3, {"loss": 0.8})]).validations({3: tried}).exit()
    found = [(each.position, each.attempt, len(each.tasks)) for each in collect(tmp_path).evaluations]
    assert found == [(0, 1, 2), (2, 1, 2), (3, 2, 2)]
