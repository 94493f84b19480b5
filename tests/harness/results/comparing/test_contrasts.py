"""Contrasts against scipy and statsmodels' formula models, and what cannot be tested."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import statsmodels.formula.api as smf
from scipy import stats as scipy_stats
from statsmodels.stats.multitest import multipletests

from harness.results import stats
from harness.results.compare import compare_results
from harness.results.comparing.types import Comparison, Contrast, Expectation
from harness.results.sweeps.wording import notes
from tests.harness.results.comparing.made import KL, LR, compared, drawn, grid, result, table, tasks


def contrast(comparison: Comparison, key: str, level: object) -> Contrast:
    (effect,) = (one for one in comparison.keys if one.key == key)
    return next(one for one in effect.contrasts if one.level == level)


def test_every_point_keeps_its_own_scatter_and_the_smallest_tells_the_degrees() -> None:
    values = {(0,): [0.5, 0.52, 0.49, 0.51, 0.5], (1,): [0.61, 0.74], (2,): [0.5, 0.55, 0.47, 0.5, 0.6]}
    first, second = compared(values).keys[0].contrasts
    assert second.p == pytest.approx(scipy_stats.ttest_ind(values[2,], values[0,], equal_var=False).pvalue)
    ours = [np.var(values[level,], ddof=1) / len(values[level,]) for level in (0, 1)]
    assert first.degrees == pytest.approx(sum(ours) ** 2 / sum(part**2 for part in ours))  # 2 - 1 each
    assert first.method[:5] == second.method[:5] == "Welch"
    assert "as few runs as the smallest" in first.method and "smallest" not in second.method


def test_a_combination_with_one_run_or_none_takes_part_in_no_test_on_either_side() -> None:
    values = drawn(9, kls=2, lrs=4)
    values[1, 1], values[1, 3] = values[1, 1][:1], []
    found = compared(values)
    each = [np.mean(values[1, lr]) - np.mean(values[0, lr]) for lr in (0, 2)]
    assert contrast(found, KL, 1).points == (("p05", "p07"), ("p01", "p03"))
    assert contrast(found, KL, 1).difference == pytest.approx(np.mean(each))
    assert 2 < (contrast(found, KL, 1).degrees or 0) <= 8
    assert contrast(found, LR, 1).points == (("p02",), ("p01",))


def test_a_difference_in_a_grid_averages_over_the_other_key_with_equal_weights() -> None:
    values = drawn(3)
    values[1, 0] += [0.9, 0.9]  # more seeds of one combination do not give it more weight
    found = contrast(compared(values), KL, 1)
    cells = [np.array(values[kl, lr]) for kl in (0, 1) for lr in range(4)]
    each = [np.mean(values[1, lr]) - np.mean(values[0, lr]) for lr in range(4)]
    parts = [cell.var(ddof=1) / len(cell) / 16 for cell in cells]  # Welch 1947, Satterthwaite 1946
    error = np.sqrt(sum(parts))
    degrees = sum(parts) ** 2 / sum(part**2 / 2 for part in parts)  # 3 runs in the smallest
    assert found.difference == pytest.approx(np.mean(each))
    assert found.degrees == pytest.approx(degrees)
    assert found.p == pytest.approx(2 * scipy_stats.t.sf(abs(np.mean(each)) / error, degrees))
    half = scipy_stats.t.ppf(0.975, degrees) * error
    assert (found.low, found.high) == pytest.approx((np.mean(each) - half, np.mean(each) + half))
    assert found.n == (14, 12)


def test_in_one_at_a_time_the_other_key_does_not_mix_in() -> None:
    values = {(0, 0): [0.5, 0.52, 0.51], (1, 0): [0.6, 0.64, 0.6], (0, 1): [0.2, 0.25, 0.22]}
    found = compared(values, design="one-at-a-time")
    assert contrast(found, KL, 1).points == (("p02",), ("p01",))
    assert contrast(found, LR, 1).finding == "lower"


def test_points_of_a_random_design_are_compared_whole_with_the_baseline() -> None:
    values = {(0, 0): [0.5, 0.52, 0.49], (1, 1): [0.6, 0.64, 0.61], (1, 2): [0.5, 0.51, 0.53], (0, 2): []}
    (whole,) = compared(values, design="random").keys
    assert (whole.key, whole.matters) == ("point", True)
    assert [one.level for one in whole.contrasts] == ["p02", "p03", "p04"]
    for one, place in zip(whole.contrasts, ((1, 1), (1, 2)), strict=False):
        theirs = scipy_stats.ttest_ind(values[place], values[0, 0], equal_var=False)
        assert one.p == pytest.approx(theirs.pvalue)
    assert whole.contrasts[2].why_not == "no run of p04 counts"


def test_with_one_seed_nothing_is_found_and_the_tasks_tell_only_of_tasks() -> None:
    before, after = {"a": 0.0, "b": 0.25, "c": 0.5}, {"b": 0.5, "c": 1.0, "a": 0.75, "d": 1.0}
    study, _ = grid({(0,): [0.25], (1,): [0.75]})
    rated = zip(study.runs, (before, after), strict=True)
    results = [result(r.name, r.point, 0, float(np.mean(list(t.values()))), tasks=tasks(t)) for r, t in rated]
    found = compare_results(study, results)
    one = found.keys[0].contrasts[0]
    theirs = scipy_stats.ttest_1samp([0.75, 0.25, 0.5], 0).confidence_interval()
    assert (one.finding, one.p, one.low) == ("not tested", None, None)
    assert "one seed" in one.why_not
    assert one.over_tasks == pytest.approx((theirs.low, 1.0, 3))  # a rate rises by no more than 1
    assert one.difference == pytest.approx(0.5)  # over the three tasks that both have
    assert found.is_single_seed
    assert any("over the 3 tasks" in note for note in notes(found))


@pytest.mark.parametrize("design", ["grid", "random"])
def test_with_single_runs_no_key_is_said_to_matter(design: str) -> None:
    rng = np.random.default_rng(1)
    places = list(product((1, 2), (1, 2, 3, 4, 5)))
    found = compared({(a, b): [0.5 + 0.2 * (a == 2) + rng.normal(0, 0.01)] for a, b in places}, design=design)
    assert {(key.matters, key.p) for key in found.keys} == {(None, None)}
    assert all(one.finding == "not tested" for key in found.keys for one in key.contrasts)
    assert all("one seed" in key.why_not for key in found.keys) and found.interactions == ()


@pytest.mark.parametrize("scale", [1e100, 1e150, 1e153, 1e200, 1e300])
@pytest.mark.parametrize("design", ["grid", "random"])
def test_numbers_too_large_to_compute_with_are_told_and_stop_nothing(scale: float, design: str) -> None:
    values = {place: [value * scale for value in seeds] for place, seeds in drawn(3, kls=2, lrs=2).items()}
    found = compared(values, design=design, metric="loss")
    for key in found.keys:
        for one in key.contrasts:
            assert one.finding != "not tested" or one.why_not
        assert key.matters is not None or key.why_not


@pytest.mark.parametrize(("value", "told"), [(0.53, "is the seed used at all?"), (1.0, "p01, p02 are at 1")])
def test_seeds_that_change_nothing_are_noticed_and_nothing_is_tested(value: float, told: str) -> None:
    found = compared({(0,): [value] * 3, (1,): [value] * 3})
    one = found.keys[0].contrasts[0]
    assert (one.finding, one.p, one.difference, found.keys[0].matters) == ("not tested", None, 0.0, None)
    assert any(told in note for note in notes(found))


def test_diverged_runs_are_missing_by_name() -> None:
    study, results = grid({(0,): [0.5, 0.6, 0.55], (1,): [0.7, float("nan"), 0.8]})
    found = compare_results(study, results)
    assert found.missing == ("p02-s1: diverged: NaN or infinite, first at step 20",)
    assert found.points[1].value is not None and found.points[1].value.n == 2
    assert any(note.startswith("p02: 1 of 3 runs do not count") for note in notes(found))


def test_no_run_at_all_that_counts_is_still_a_comparison() -> None:
    study, results = grid({(0,): [0.5], (1,): [0.6]})
    lost = [replace(one, value=None, outcome="failed", why_not="failed: x") for one in results]
    for design in ("grid", "random", "one-at-a-time"):
        found = compare_results(replace(study, design=design), lost)
        assert found.best is None and found.yardstick.threshold is None and len(found.missing) == 2
        assert all(one.finding == "not tested" and one.why_not for key in found.keys for one in key.contrasts)


def test_a_wide_interval_that_holm_takes_back_is_explained() -> None:
    values = {(level,): [0.5, 0.52, 0.49] for level in range(6)} | {(9,): [0.54, 0.56, 0.53]}
    found = compared(values, design="one-at-a-time")
    one = contrast(found, KL, 9)
    assert one.p is not None and one.p < 0.05 and one.low is not None and one.low > 0
    assert one.finding == "no detectable difference"
    assert any(note.startswith("kl_loss_coef 9: the 95 % interval") for note in notes(found))


def test_an_interaction_of_two_levels_each_is_the_difference_of_the_differences() -> None:
    found = compared(values := drawn(2, kls=2, lrs=2))
    (pair,) = found.interactions
    theirs = stats.contrast([np.array(values[place]) for place in values], np.array([1.0, -1, -1, 1]))
    model = smf.ols("y ~ C(kl, Sum) * C(lr, Sum)", table(values)).fit()
    assert pair.keys == (KL, LR) and theirs is not None
    assert pair.p == pytest.approx(theirs.p)
    assert theirs.difference == pytest.approx(4 * model.params["C(kl, Sum)[S.0]:C(lr, Sum)[S.0]"])


def test_an_effect_that_reverses_is_an_interaction_and_never_nothing() -> None:
    rng = np.random.default_rng(0)
    places = list(product((1, 2), (1, 2)))
    values = {(a, b): list(0.5 + (0.2 if a == b else -0.2) + rng.normal(0, 0.02, 5)) for a, b in places}
    found = compared(values, expectations=(Expectation(KL, 2, "none"),))
    (pair,) = found.interactions
    assert pair.matters and pair.p_adjusted < 1e-10
    assert found.depends_on(KL) == (LR,) and found.depends_on(LR) == (KL,)
    assert [one.verdict for one in found.expected] == ["open"]
    assert any(note.startswith("what kl_loss_coef does depends on lr") for note in notes(found))
    alike = drawn(2)
    one_stands_out = alike | {(2, 3): [value + 0.3 for value in alike[2, 3]]}
    for values, matters in ((alike, False), (one_stands_out, True)):
        assert [pair.matters for pair in compared(values).interactions] == [matters]


@pytest.mark.parametrize("design", ["grid", "one-at-a-time", "random"])
def test_where_nothing_matters_one_study_in_twenty_says_that_something_does(design: str) -> None:
    rng = np.random.default_rng(13)
    places = [(a, b) for a, b in product((0, 1, 2), (0, 1)) if design != "one-at-a-time" or not a * b]
    said = 0
    for _ in range(80):
        found = compared({place: list(rng.normal(5, 1, 2)) for place in places}, design=design, metric="x")
        said += any(key.matters for key in found.keys) or any(pair.matters for pair in found.interactions)
    assert said <= 9  # of 80, where 4 are expected


def test_all_comparisons_and_interactions_are_one_family() -> None:
    found = compared(drawn(5))
    p_values = [one.p for key in found.keys for one in key.contrasts] + [one.p for one in found.interactions]
    adjusted = [one.p_adjusted for key in found.keys for one in key.contrasts]
    adjusted += [one.p_adjusted for one in found.interactions]
    assert len(p_values) == 6
    assert adjusted == pytest.approx(multipletests(p_values, method="holm")[1])
    for key in found.keys:
        assert key.matters == any(one.is_found for one in key.contrasts)
        assert key.p == min(one.p or 1 for one in key.contrasts)
