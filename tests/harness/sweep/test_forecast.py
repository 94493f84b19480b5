"""What is said of a sweep before it runs: time, budget, power."""

from typing import Any

import numpy as np
import pytest
from statsmodels.stats.power import TTestIndPower

from harness.earlier_runs import Estimate
from harness.sweep.forecast import forecast
from tests.harness.sweep.plans import grid, plan


def test_more_seeds_find_smaller_differences_and_few_cost_more_than_equal_scatter_would() -> None:
    known = [(seeds, forecast(plan(seeds=seeds), None, 1.0).two_points) for seeds in (2, 3, 5, 10)]
    for (seeds, ours), more in zip(known, (1.5, 1.1, 1.02, 1.0), strict=True):
        student = TTestIndPower().solve_power(nobs1=seeds, alpha=0.05, power=0.8)
        assert ours is not None and ours >= more * student
    assert forecast(plan(seeds=1), None, 1.0).two_points is None


def test_two_values_in_a_grid_are_found_as_often_as_foretold() -> None:
    """By simulation: 2 x 3 points with 3 seeds, a value of the second key against its baseline."""
    from scipy import stats

    seen = forecast(grid({"a": range(2), "b": range(3)}, range(3)), None, 1.0)
    difference, runs = seen.two_levels["b"], 4000
    draws = np.random.default_rng(0).normal(size=(runs, 2, 2, 3))  # the other key, the two values, seeds
    draws[:, :, 1] += difference
    effect = (draws[:, :, 1].mean(axis=2) - draws[:, :, 0].mean(axis=2)).mean(axis=1)
    parts = draws.var(axis=3, ddof=1).reshape(runs, 4) / 3 / 4
    t, degrees = effect / np.sqrt(parts.sum(axis=1)), 2 * parts.sum(axis=1) ** 2 / (parts**2).sum(axis=1)
    found = (2 * stats.t.sf(np.abs(t), degrees) < 0.05).mean()
    assert found == pytest.approx(0.8, abs=0.025)


@pytest.mark.parametrize(
    ("changes", "estimate", "expected"),
    [
        ({"parallel": 1, "budget_s": None}, 10.0, (60.0, 600.0, None, None)),
        ({"parallel": 4, "budget_s": None}, 10.0, (20.0, 200.0, None, None)),
        ({"parallel": 1, "budget_s": 60.0}, 10.0, (60.0, 600.0, 6, True)),
        ({"parallel": 1, "budget_s": 59.0}, 10.0, (60.0, 600.0, 5, False)),
        ({"parallel": 2, "budget_s": 250.0}, None, (None, 300.0, 4, False)),
    ],
)
def test_time_and_budget(changes: dict[str, Any], estimate: float | None, expected: tuple) -> None:
    takes = None if estimate is None else Estimate(estimate, "")
    seen = forecast(plan(points=3, seeds=2, **changes), takes, 100.0)
    assert (seen.all_s, seen.most_all_s, seen.within_budget, seen.fits_budget) == expected
