"""Simulated sweeps with a planted difference: false findings, power and coverage, end to end."""

import pytest

from benchmarks._planted_sweeps import DESIGNS, NOISES, PAIRS, false_of_pairs, planted, tally


def test_a_planted_difference_is_found_and_others_are_not_made_up() -> None:
    counts = tally(planted("grid 3 × 4", "normal"), 30, seed=7)
    assert counts.false_findings <= 4  # of 30, where 5 % are expected
    assert counts.alone >= 18  # where 24 are expected
    assert counts.covered / counts.intervals > 0.88
    assert counts.one_seed >= 25  # reading single runs is wrong nearly always


@pytest.mark.parametrize(("n", "m"), PAIRS)
def test_d7_four_times_the_scatter_makes_no_differences_up(n: int, m: int) -> None:
    ours, pooled = false_of_pairs(n, m, 4.0, 1000)
    assert ours <= 75 and (n > m or ours <= 65)  # of 1000
    if n > m:
        assert pooled > 150


@pytest.mark.soak
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("noise", NOISES)
def test_conclusions_are_true_in_200_sweeps_of_each_kind(design: str, noise: str) -> None:
    counts = tally(planted(design, noise), 200, seed=list(NOISES).index(noise))
    assert counts.false_findings <= 16
    assert counts.false_keys <= 16
    assert counts.covered / counts.intervals > 0.92
    if noise == "normal":
        assert counts.alone / 200 == pytest.approx(counts.calculated, abs=0.09)
    assert counts.one_seed > 150 and counts.best_seed > 150
