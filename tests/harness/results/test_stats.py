"""The statistics against scipy's own tests, published numbers, and brute force."""

import numpy as np
import pytest
from scipy import stats as scipy_stats
from statsmodels.stats.meta_analysis import effectsize_smd
from statsmodels.stats.power import TTestIndPower

from harness.results import stats


def pair(one: np.ndarray, other: np.ndarray) -> stats.Tested:
    tested = stats.contrast([one, other], np.array([1.0, -1.0]))
    assert tested is not None
    return tested


@pytest.mark.parametrize(("n", "m"), [(3, 3), (2, 2), (5, 5)])
def test_two_cells_with_equally_many_runs_are_scipys_welch_test_whatever_their_scatter(
    n: int, m: int
) -> None:
    rng = np.random.default_rng(n * 10 + m)
    one, other = rng.normal(0.5, 0.1, n), rng.normal(0.4, 0.3, m)
    theirs = scipy_stats.ttest_ind(one, other, equal_var=False)
    tested = pair(one, other)
    interval = theirs.confidence_interval()
    assert tested.p == pytest.approx(theirs.pvalue)
    assert tested.degrees == pytest.approx(theirs.df)
    assert (tested.low, tested.high) == pytest.approx((interval.low, interval.high))


def test_d7_a_spread_ratio_of_four_at_three_seeds_is_no_finding_that_welch_does_not_support() -> None:
    one, other = np.array([0.237, 0.338, 0.188]), np.array([0.414, 0.452, 0.403])
    assert pair(one, other).p == pytest.approx(scipy_stats.ttest_ind(one, other, equal_var=False).pvalue)
    wide, narrow = np.array([0.16, 0.30, 0.23]), np.array([0.414, 0.432, 0.423])
    assert scipy_stats.ttest_ind(wide, narrow).pvalue < 0.01 < 0.03 < pair(wide, narrow).p


@pytest.mark.parametrize(("n", "m"), [(3, 3), (3, 8), (8, 3), (2, 5), (5, 2)])
@pytest.mark.parametrize("ratio", [1.0, 2.0, 4.0])
def test_d7_unequal_scatter_makes_no_more_findings_than_chance_does(n: int, m: int, ratio: float) -> None:
    rng = np.random.default_rng(4)
    pairs = zip(rng.normal(5, 1.0, (1500, n)), rng.normal(5, ratio, (1500, m)), strict=True)
    found = sum(pair(one, other).p < 0.05 for one, other in pairs)
    assert found <= 105  # of 1500, where 75 are 5 %; the pooled test finds 400 of 5 v 2 at ratio 4


def test_a_contrast_of_many_cells_has_satterthwaites_degrees() -> None:
    rng = np.random.default_rng(8)
    cells, weights = list(rng.normal(0.5, 0.1, (6, 4))), np.array([1, 1, 1, -1, -1, -1]) / 3
    parts = [weight**2 * cell.var(ddof=1) / 4 for cell, weight in zip(cells, weights, strict=True)]
    tested = stats.contrast(cells, weights)
    assert tested is not None
    assert tested.degrees == pytest.approx(sum(parts) ** 2 / sum(part**2 / 3 for part in parts))
    t = tested.difference / np.sqrt(sum(parts))
    assert tested.p == pytest.approx(2 * scipy_stats.t.sf(abs(t), tested.degrees))


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300])
def test_numbers_that_cannot_be_squared_are_not_tested_or_tested_rightly(scale: float) -> None:
    cells, weights = [np.array([0.5, 0.6]) * scale, np.array([0.7, 0.9]) * scale], np.array([1.0, -1.0])
    tested = stats.contrast(cells, weights)
    if tested is not None:
        assert tested.p == pytest.approx(
            scipy_stats.ttest_ind([0.5, 0.6], [0.7, 0.9], equal_var=False).pvalue
        )
    else:
        assert scale not in (1e-150, 1e150)


def test_hedges_g_is_that_of_statsmodels() -> None:
    rng = np.random.default_rng(3)
    one, other = rng.normal(0.5, 0.1, 3), rng.normal(0.4, 0.1, 4)
    theirs, _ = effectsize_smd(one.mean(), one.std(ddof=1), 3, other.mean(), other.std(ddof=1), 4)
    assert pair(one, other).effect == pytest.approx(theirs)


@pytest.mark.parametrize("n", [2, 3, 5, 20])
def test_detectable_difference_is_that_of_statsmodels_power_for_two_samples(n: int) -> None:
    one = np.linspace(0.0, 1.0, n)  # both scatter alike
    in_sds = TTestIndPower().solve_power(nobs1=n, alpha=0.05, power=0.8)
    assert pair(one, one + 3).detectable / one.std(ddof=1) == pytest.approx(in_sds, rel=1e-4)


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_the_planned_difference_is_found_in_four_of_five_simulated_experiments(seeds: int) -> None:
    rng = np.random.default_rng(5)
    difference = stats.planned_ratio(2, seeds) * np.sqrt(2 / seeds)
    one, other = rng.normal(0, 1, (4000, seeds)), rng.normal(difference, 1, (4000, seeds))
    found = (scipy_stats.ttest_ind(one, other, axis=1, equal_var=False).pvalue < 0.05).mean()
    assert found == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize("effect", [0.5, 1.0, 2.5, 8.0])
def test_seeds_needed_are_those_of_statsmodels_power(effect: float) -> None:
    needed = stats.seeds_needed(effect, 2.0, 2)
    power = [TTestIndPower().power(effect, n, 0.05) if n > 1 else 0.0 for n in (needed - 1, needed)]
    assert needed == 2 or power[0] < 0.8
    assert power[1] >= 0.8
    assert stats.seeds_needed(0.0, 2.0, 2) is None and stats.seeds_needed(1e-9, 2.0, 2) is None


def test_holm_is_what_a_hand_works_out() -> None:
    # sorted: 0.005, 0.01, 0.03, 0.04, times 4, 3, 2, 1, never falling
    assert stats.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert stats.holm([]) == ()


def test_estimate_is_the_textbook_t_interval_where_there_is_scatter() -> None:
    found = stats.estimate(np.array([0.8, 0.9, 1.0]))
    assert found is not None and found.sd == pytest.approx(0.1)
    half = 4.302653 * 0.1 / np.sqrt(3)  # t table: 97.5 %, 2 degrees of freedom
    assert (found.low, found.high) == pytest.approx((0.9 - half, 0.9 + half), abs=1e-6)
    assert stats.estimate(np.array([])) is None
    one, same = stats.estimate(np.array([0.5])), stats.estimate(np.array([0.1, 0.1, 0.1]))
    assert one is not None and (one.n, one.sd, one.low, one.high) == (1, None, None, None)
    assert same is not None and (same.sd, same.low, same.high) == (0.0, None, None)


def test_rounding_is_no_scatter() -> None:
    assert not stats.has_scatter([np.array([0.3, 0.1 + 0.2]), np.array([0.7])])
    assert stats.has_scatter([np.array([0.5, 0.5]), np.array([0.5, 0.501])])


def test_area_of_a_ramp_is_its_middle() -> None:
    steps, values = np.array([0.0, 10.0, 40.0]), np.array([0.0, 10.0, 40.0])
    assert stats.mean_height(steps, values, 0, 40) == pytest.approx(20)
    assert stats.mean_height(steps, values, 5, 20) == pytest.approx(12.5)
    assert stats.mean_height(steps, values, 0, 50) is None
