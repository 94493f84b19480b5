"""A study in, a comparison out: points, areas, thresholds, cost, expectations, and what a reader is told."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.results.compare import compare, compare_results
from harness.results.comparing.types import Comparison, Curve, Expectation, Key
from harness.results.sweeps.wording import cautions, findings, notes
from tests.harness.results.comparing.made import KL, METRIC, Values, compared, grid, result, study_of, tasks
from tests.harness.results.comparing.result_folders import trained

TWO = {(0,): [0.5, 0.52, 0.49], (1,): [0.71, 0.74, 0.7]}


def with_curves(curves: dict[str, list[Curve]], **changes: object) -> Comparison:
    """One key, a point per entry; the value of a run is the end of its curve."""
    ends = {(level,): [curve.values[-1] for curve in found] for level, found in enumerate(curves.values())}
    study, results = grid(ends, **changes)
    pairs = zip(results, (curve for found in curves.values() for curve in found), strict=True)
    return compare_results(study, [replace(one, curve=curve) for one, curve in pairs])


def test_a_study_is_read_from_its_folders(tmp_path: Path) -> None:
    study = study_of([Key(KL, (0.01, 0.1), 0.01)], {(0.01,): 2, (0.1,): 2}, tmp_path, metric="")
    for run in study.runs[:3]:
        trained(run.folder, seed=run.seed or 0, rates={0: 0.3, 40: 0.5 if run.point == "p01" else 0.9})
    trained(study.runs[3].folder, outcome="failed", reason="attempt 3: CUDA out of memory")
    found = compare(study, ("torch differs",))
    assert (found.metric, found.chosen_afterwards, found.confounds) == (METRIC, True, ("torch differs",))
    assert found.study == replace(study, goal="max")
    assert found.missing == ("p02-s1: failed: attempt 3: CUDA out of memory (last step 40)",)
    assert found.best == "p02"
    assert all(one.tasks == () for one in found.runs)


def test_a_run_cut_short_before_its_validation_does_not_choose_the_metric(tmp_path: Path) -> None:
    study = study_of([], {(): 2}, tmp_path, metric="")
    trained(study.runs[0].folder)
    trained(study.runs[1].folder, rates={}, steps=range(1, 4), outcome="timed_out")
    found = compare(study)
    assert found.metric == METRIC
    assert found.missing == (f"p01-s1: has no {METRIC} (last step 3)",)


def test_a_study_of_nothing_but_failures_still_says_what_happened(tmp_path: Path) -> None:
    found = compare(study_of([], {(): 1}, tmp_path, metric="", not_run={"p01-s0": "the budget was used up"}))
    assert (found.metric, found.best, found.chosen_afterwards) == ("", None, False)
    assert found.missing == ("p01-s0: never started: the budget was used up",)


def test_areas_are_taken_over_the_steps_that_all_curves_span() -> None:
    whole = Curve((0, 10, 20), (0.0, 0.5, 1.0))
    longer = Curve((0, 10, 20, 40), (0.0, 0.5, 1.0, 1.0))
    found = with_curves({"a": [whole], "b": [longer]})
    assert [run.area for run in found.runs] == pytest.approx([0.5, 0.5])
    assert any("between step 0 and 20, which all curves span" in note for note in notes(found))


def test_the_threshold_is_the_baselines_mean_and_runs_that_miss_it_are_counted() -> None:
    fast, slow = Curve((0, 10, 20), (0.1, 0.6, 0.7)), Curve((0, 10, 20), (0.1, 0.2, 0.4))
    found = with_curves({"base": [slow, replace(slow, values=(0.1, 0.2, 0.5))], "other": [fast, slow]})
    assert found.yardstick.threshold == pytest.approx(0.45)
    base, other = found.points
    assert (base.reached_threshold, other.reached_threshold) == (1, 1)
    assert other.steps_to_threshold is not None and other.steps_to_threshold.mean == 10
    assert other.value is not None and other.value.n == 2


def test_values_of_an_evaluation_are_not_measured_against_the_curves_of_the_training() -> None:
    study, results = grid(TWO)
    found = compare_results(study, [replace(one, evaluated=True) for one in results])
    assert found.yardstick.threshold is None and not any(run.area for run in found.runs)
    said = "\n".join(notes(found))
    assert "[exp_evaluate_command]" in said and "last one" not in said and "no areas" not in said


def test_seeds_alone_tell_how_far_they_lie_apart() -> None:
    study = study_of([], {(): 3}, Path("/sweep"), metric="loss")
    results = [result(run.name, run.point, run.seed or 0, 0.5 + 0.1 * n) for n, run in enumerate(study.runs)]
    said = findings(compare_results(study, results))
    assert said.verdict == "What the seed alone changes"
    assert "The mean is 0.60" in said.best and "standard deviation of 0.10" in said.best


def test_a_loss_is_better_when_it_is_lower() -> None:
    falls = [Curve((0, 10, 20), (2.0, 1.5, end)) for end in (1.0, 1.1, 1.05)]
    stays = [Curve((0, 10, 20), (2.0, 1.9, end)) for end in (1.8, 1.7, 1.75)]
    found = with_curves({"base": stays, "other": falls}, metric="loss", goal="min", threshold=1.5)
    assert found.best == "p02"
    assert found.keys[0].contrasts[0].finding == "lower"
    assert [point.reached_threshold for point in found.points] == [0, 3]
    assert found.runs[3].steps_to_threshold == 10


def test_the_cost_is_that_of_a_hundredth_of_a_rate() -> None:
    values: Values = {(0,): [0.7, 0.7], (1,): [0.2, 0.1]}
    better, worse = compared(values, cost_units=4.0).points  # 2 hours a run, from 0.2
    assert better.cost == 8.0 and better.cost_per_point == pytest.approx(8.0 / 0.5 * 0.01)
    assert worse.cost_per_point is None
    better, _ = compared(values, metric="critic/rewards/mean").points
    assert (better.cost, better.cost_per_point) == (2.0, None), "a unit of a reward is no amount"


@pytest.mark.parametrize(
    ("effect", "level", "verdict"),
    [("higher", 1, "held"), ("lower", 1, "did not hold"), ("none", 1, "did not hold"), ("higher", 7, "open")],
)
def test_an_expectation_is_judged_by_the_finding(effect: str, level: int, verdict: str) -> None:
    expectation = Expectation(KL, level, effect)  # type: ignore[arg-type]
    (found,) = compare_results(*grid(TWO, expectations=(expectation,))).expected
    assert (found.expectation, found.verdict) == (expectation, verdict)


@pytest.mark.parametrize("effect", ["higher", "none"])
@pytest.mark.parametrize("values", [[0.5, 0.53, 0.49], [0.9]])
def test_that_nothing_was_found_never_shows_that_nothing_is_there(effect: str, values: list[float]) -> None:
    expectations = (Expectation(KL, 1, effect),)  # type: ignore[arg-type]
    found = compare_results(*grid({(0,): [0.5, 0.52, 0.49], (1,): values}, expectations=expectations))
    assert found.expected[0].verdict == "open"


def test_true_is_not_one() -> None:
    study, results = grid({("i",): [0.5, 0.52, 0.49], ("b",): [0.71, 0.74, 0.7], ("f",): [0.5, 0.52, 0.5]})
    levels = (1, True, 2)
    points = [replace(point, levels={KL: one}) for point, one in zip(study.points, levels, strict=True)]
    found = compare_results(replace(study, keys=(Key(KL, levels, 1),), points=tuple(points)), results)
    told = [(one.level, one.finding) for one in found.keys[0].contrasts]
    assert told == [(True, "higher"), (2, "no detectable difference")]


def test_every_way_of_counting_that_matters_is_told() -> None:
    study, results = grid(TWO)
    results[0] = replace(results[0], outcome="stopped_early", curve=Curve((0, 10), (0.2, 0.5)))
    results[1] = replace(results[1], outcome="timed_out")
    results[4] = replace(results[4], deviations=("attempt 2: micro_batch 8 → 4",))
    found = compare_results(study, results)
    assert any("runs with the same seed are not compared one with one" in note for note in notes(found))
    told = {warned.title: "\n".join(warned.lines) for warned in cautions(found)}
    ends = told["Runs that did not train equally long"]
    assert "ended by an early stop and counted with the value then: p01-s0" in ends
    assert "ended by its time limit and counted with the value then: p01-s1" in ends
    assert "not at the same step in all runs: between step 10 and 20" in ends
    assert told["Runs that were repaired on the way"] == "p02-s1: attempt 2: micro_batch 8 → 4"


def test_different_validation_tasks_are_told_and_only_shared_ones_counted() -> None:
    study, results = grid({(0,): [0.5, 0.5], (1,): [0.5, 0.5]})
    sets = [{"a": 0.5, "b": 1.0}, {"a": 0.25, "b": 0.0}, {"a": 1.0, "c": 0.0}, {"a": 0.75, "b": 0.0}]
    results = [replace(one, tasks=tasks(rates)) for one, rates in zip(results, sets, strict=True)]
    found = compare_results(study, results)
    assert [one.value for one in found.runs] == [0.5, 0.25, 1.0, 0.75]
    assert any("over the 1 task that all of them have" in note for note in notes(found))


def test_detectable_differences_say_what_several_comparisons_ask_for() -> None:
    found = compare_results(*grid({(level,): [0.5, 0.52, 0.49] for level in range(12)}))
    told = next(note for note in notes(found) if note.startswith("detectable"))
    # 11 comparisons of 3 v 3: the t quantile goes from 2.78 to 6.25 (t table, 4 degrees, 0.05 / 22)
    assert "as one of 11 tests" in told
    assert 1.5 < float(told.split("up to ")[1].split(" ")[0]) < 2.5
