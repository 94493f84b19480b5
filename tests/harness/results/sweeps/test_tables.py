"""A comparison as JSON, and its runs as a table."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.results.compare import compare_results
from harness.results.comparing.types import Comparison, Curve, Expectation
from harness.results.sweeps.tables import points_csv, to_json
from harness.results.types import Source
from tests.harness.results.comparing.made import KL, grid, result


@pytest.fixture
def found() -> Comparison:
    values = {(0, True): [0.5, 0.6, 0.55], (1, True): [0.7, 0.8], (0, "1e-4"): [0.4, 0.5], (1, "1e-4"): [0.9]}
    study, results = grid(values, expectations=(Expectation(KL, 1, "higher", "because"),))
    source = Source("attempts/01/metrics.jsonl", 3, 9, "x")
    results[0] = replace(results[0], source=source, deviations=("a, b",))
    results[1] = result("p01-s1", "p01", 1, None, outcome="failed", why_not='failed: "out"\nof memory')
    return compare_results(study, results, ("torch differs",))


def test_everything_is_there_with_folders_that_move_along_and_null_for_nan(found: Comparison) -> None:
    curve = Curve((0, 1, 2), (float("nan"), float("-inf"), 0.5))
    found = replace(found, runs=(replace(found.runs[0], curve=curve), *found.runs[1:]))
    data = json.loads(json.dumps(to_json(found, Path("/sweep")), allow_nan=False))
    assert data["runs"][0]["run"]["folder"] == "p01-s0"
    assert data["runs"][0]["curve"]["values"] == [None, None, 0.5]
    known = {name: value for name, value in vars(found.contrasts[0]).items() if not isinstance(value, tuple)}
    assert data["keys"][0]["contrasts"][0].items() >= known.items()
    assert [point["is_single_seed"] for point in data["points"]] == [False, False, False, True]
    assert data["is_single_seed"] is False
    assert data["points"][1]["point"]["levels"] == {KL: 1, "ajet.lr": True}


def test_the_table_has_a_row_per_run_with_all_digits(found: Comparison) -> None:
    rows = list(csv.DictReader(io.StringIO(points_csv(found))))
    assert len(rows) == 8
    assert rows[0][KL] == "0" and rows[0]["ajet.lr"] == "true"
    assert float(rows[0]["value"]) == 0.5 and rows[0]["seeds_that_count"] == "2"
    assert rows[0]["source"] == "attempts/01/metrics.jsonl:3–9" and rows[0]["source_key"] == "x"
    assert rows[1]["value"] == "" and rows[1]["why_not"] == 'failed: "out"\nof memory'
