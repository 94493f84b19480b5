"""Intervals against textbook formulas, brute force and simulation."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from harness.results import task_statistics
from harness.results.types import TaskResult


def task(successes: list[int], name: str = "t") -> TaskResult:
    return TaskResult(name, tuple(float(s) for s in successes), tuple(bool(s) for s in successes))


def test_with_few_tasks_and_no_change_a_change_is_told_in_about_one_of_twenty_runs() -> None:
    rng = np.random.default_rng(4)
    told = 0
    for _ in range(600):
        before, after = (rng.binomial(4, 0.5, size=6) / 4 for _ in range(2))
        interval = task_statistics.mean_interval(after - before, (-1.0, 1.0))
        told += interval is not None and not interval.low <= 0.0 <= interval.high
    assert told / 600 < 0.08


def test_no_success_at_all_still_has_an_upper_bound() -> None:
    interval = task_statistics.mean_interval(np.zeros(10), (0.0, 1.0))
    assert interval is not None
    assert interval.low == 0.0
    assert interval.high == pytest.approx(0.2775, abs=1e-4)  # Wilson 1927, 0 of 10


@pytest.mark.parametrize(
    ("values", "bounds"),
    [([0.5], (0, 1)), ([], (0, 1)), ([0.5] * 40, (0, 1)), ([1.0] * 40, None), ([math.nan, 1.0], None)],
)
def test_no_interval_where_none_can_be_known(values: list[float], bounds: tuple[float, float] | None) -> None:
    assert task_statistics.mean_interval(np.array(values), bounds) is None


def test_interval_covers_the_truth_about_95_times_of_100() -> None:
    rng = np.random.default_rng(2)
    truth, hits = 2 / 5, 0
    for _ in range(500):
        rates = rng.beta(2, 3, size=60)
        values = rng.binomial(4, rates) / 4
        interval = task_statistics.mean_interval(values, (0.0, 1.0))
        assert interval is not None
        hits += interval.low <= truth <= interval.high
    assert 0.92 <= hits / 500 <= 0.98


def test_unbiased_pass_at_k_is_the_mean_over_all_orders() -> None:
    for n, k in itertools.product((4, 5), (1, 2, 4)):
        for c in range(n + 1):
            orders = list(itertools.permutations([1] * c + [0] * (n - c)))
            expected = np.mean([any(order[:k]) for order in orders])
            values = task_statistics.task_values([task([1] * c + [0] * (n - c))], f"unbiased@{k}")
            assert values[0] == pytest.approx(expected)


def test_measures_of_a_task() -> None:
    results = [task([0, 1, 0, 0]), task([1, 1, 1, 1])]
    expected = {"pass": [0.25, 1], "first@1": [0, 1], "first@2": [1, 1], "unbiased@2": [0.5, 1]}
    expected |= {"all": [0, 1], "any": [1, 1], "episodes": [4, 4], "tasks": [1, 1], "reward": [0.25, 1]}
    for measure, values in expected.items():
        assert task_statistics.task_values(results, measure).tolist() == values


def test_paired_difference_uses_only_tasks_in_both_and_matches_scipy() -> None:
    rng = np.random.default_rng(3)
    before = [task(list(rng.integers(0, 2, 4)), f"t{i}") for i in range(60)]
    after = [task(list(rng.integers(0, 2, 4)), f"t{i}") for i in reversed(range(10, 70))]
    values = task_statistics.paired(before, after, "pass")
    one = task_statistics.task_values(before[10:], "pass")
    other = task_statistics.task_values(sorted(after, key=lambda t: int(t.task_id[1:]))[:50], "pass")
    expected = stats.ttest_rel(other, one).confidence_interval(0.95)
    interval = task_statistics.mean_interval(values, (-1.0, 1.0))
    assert len(values) == 50 and interval is not None
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))
    assert interval.n == 50 and interval.method.startswith("t interval")
