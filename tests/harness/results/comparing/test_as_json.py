"""A comparison as JSON and back, and its runs as a table."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.results.compare import compare_results
from harness.results.comparing.as_json import from_json, points_csv, to_json
from harness.results.comparing.types import Comparison, Curve, Expectation
from harness.results.types import Source
from tests.harness.results.comparing.made import KL, grid, result


def comparison() -> Comparison:
    values = {(0, True): [0.5, 0.6, 0.55], (1, True): [0.7, 0.8], (0, "1e-4"): [0.4, 0.5], (1, "1e-4"): [0.9]}
    study, results = grid(values, expectations=(Expectation(KL, 1, "higher", "because"),))
    results[0] = replace(
        results[0], source=Source("attempts/01/metrics.jsonl", 3, 9, "x"), deviations=("a, b",)
    )
    results[1] = result("p01-s1", "p01", 1, None, outcome="failed", why_not='failed: "out"\nof memory')
    return compare_results(study, results, ("torch differs",))


def test_json_is_an_exact_inverse_also_through_text() -> None:
    found = comparison()
    text = json.dumps(to_json(found), allow_nan=False)
    assert from_json(json.loads(text)) == found


def test_interactions_are_kept() -> None:
    found = compare_results(*grid({(a, b): [a * b + 0.1, a * b + 0.2] for a in (0, 1) for b in (0, 1)}))
    assert [pair.matters for pair in found.interactions] == [True]
    assert from_json(json.loads(json.dumps(to_json(found)))) == found


def test_folders_are_relative_and_move_along() -> None:
    data = json.loads(json.dumps(to_json(comparison(), Path("/sweep"))))
    assert data["runs"][0]["run"]["folder"] == "p01-s0"
    assert from_json(data, Path("/moved")).runs[0].run.folder == Path("/moved/p01-s0")


def test_nan_in_a_curve_is_null_and_comes_back() -> None:
    found = comparison()
    curve = Curve((0, 1, 2), (float("nan"), float("-inf"), 0.5))
    found = replace(found, runs=(replace(found.runs[0], curve=curve),))
    data = json.loads(json.dumps(to_json(found), allow_nan=False))
    assert data["runs"][0]["curve"]["values"] == [None, "-inf", 0.5]
    assert repr(from_json(data).runs[0].curve) == repr(curve)


def test_single_seeds_say_so_themselves() -> None:
    data = to_json(comparison())
    assert [point["is_single_seed"] for point in data["points"]] == [False, False, False, True]
    assert data["is_single_seed"] is False


def test_another_schema_is_refused() -> None:
    with pytest.raises(ValueError, match="schema 7"):
        from_json({**to_json(comparison()), "schema": 7})


def test_the_table_has_a_row_per_run_with_all_digits() -> None:
    rows = list(csv.DictReader(io.StringIO(points_csv(comparison()))))
    assert len(rows) == 8
    assert rows[0][KL] == "0" and rows[0]["ajet.lr"] == "true"
    assert float(rows[0]["value"]) == 0.5 and rows[0]["seeds_that_count"] == "2"
    assert rows[0]["source"] == "attempts/01/metrics.jsonl:3–9" and rows[0]["source_key"] == "x"
    assert rows[1]["value"] == "" and rows[1]["why_not"] == 'failed: "out"\nof memory'
