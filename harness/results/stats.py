"""What may be concluded from a few seeds: intervals, tests, effect sizes, power. The distributions are
scipy's and statsmodels'.

In: numbers, one per run, by cell (a cell is one combination of settings with its seeds). Out: `Estimate`s and
`Tested` contrasts of cells' means. Cells with equally many runs share one variance, pooled within them: for
two cells that is Student's t test. Otherwise each keeps its own (Welch–Satterthwaite), since with unequal
numbers of runs a pooled variance makes findings of unequal scatter.

Power is computed with the standard deviation that was observed, which few seeds know only roughly.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import integrate, optimize
from scipy import stats as scipy_stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import ttest_power

from harness.results.comparing.types import Estimate
from harness.results.task_statistics import LEVEL, mean_interval

ALPHA = 1 - LEVEL
POWER = 0.8
MOST_SEEDS = 1 << 20  # a difference that needs more seeds than this is none that anybody looks for
_ROUNDING = 1e-12  # scatter below this part of the numbers is the rounding of equal ones


@dataclass(frozen=True)
class Tested:
    """A contrast of means. `error`: its standard error, with so many `degrees` of freedom; `sd`: pooled
    within cells, with `sd_degrees`; `low`, `high`: 95 % interval."""

    difference: float
    low: float
    high: float
    p: float
    error: float
    degrees: float
    sd: float
    sd_degrees: float

    @property
    def effect(self) -> float | None:
        """Hedges' g: the difference in standard deviations within cells, corrected for few runs by
        1 − 3/(4ν − 1) (Hedges 1981); None with one degree of freedom, where the correction leaves nothing."""
        if self.sd_degrees < 2:
            return None
        return self.difference / self.sd * (1 - 3 / (4 * self.sd_degrees - 1))

    @property
    def detectable(self) -> float:
        """The difference that this test would have found with 80 % power, for itself alone at 5 %."""
        return self.error * needed_ratio(self.degrees)


def estimate(values: np.ndarray) -> Estimate | None:
    """Mean, sample standard deviation and 95 % t interval of one number per run, float [n]; None for none.

    Runs that are all equal have no interval: it would have no width, and say that other seeds are known.
    """
    if len(values) == 0:
        return None
    mean = float(np.mean(values))
    if len(values) == 1:
        return Estimate(1, mean)
    interval = mean_interval(values) if has_scatter([values]) else None
    sd = float(np.std(values, ddof=1)) if interval else 0.0
    return Estimate(
        len(values), mean, sd, interval.low if interval else None, interval.high if interval else None
    )


def has_scatter(cells: Sequence[np.ndarray]) -> bool:
    """True if runs of any one cell differ by more than rounding."""
    scale = max((float(np.abs(cell).max()) for cell in cells if len(cell)), default=0.0)
    return any(len(cell) > 1 and float(np.ptp(cell)) > _ROUNDING * scale for cell in cells)


# --- contrasts of cells -------------------------------------------------------------------------------------


def contrast(cells: Sequence[np.ndarray], weights: np.ndarray) -> Tested | None:
    """Test whether the cells' means, weighted and summed, are 0. Every cell needs two runs, and one of them
    scatter; None where the numbers are too large or too small to square."""
    runs = np.array([len(cell) for cell in cells])
    difference, spare = float(weights @ [cell.mean() for cell in cells]), float((runs - 1).sum())
    with np.errstate(over="ignore"):
        variances = np.array([cell.var(ddof=1) for cell in cells])
        pooled = float((runs - 1) @ variances) / spare
        parts = weights**2 * variances / runs
        square = pooled * float((weights**2 / runs).sum()) if are_equal(runs) else float(parts.sum())
    if not 0 < square < math.inf:
        return None
    degrees = spare if are_equal(runs) else 1 / float(((parts / square) ** 2 / (runs - 1)).sum())
    error = math.sqrt(square)
    p = 2 * float(scipy_stats.t.sf(abs(difference) / error, degrees))
    half = float(scipy_stats.t.ppf(1 - ALPHA / 2, degrees)) * error
    low, high = difference - half, difference + half
    return Tested(difference, low, high, p, error, degrees, math.sqrt(pooled), spare)


def are_equal(runs: Sequence[int] | np.ndarray) -> bool:
    """True if all cells have equally many runs, so that they may share one variance."""
    return len(set(map(int, runs))) == 1


def seeds_of_contrast(difference: float, cells: Sequence[np.ndarray], weights: np.ndarray) -> int | None:
    """The seeds per point that find this contrast when all cells get equally many."""
    square = float((weights**2) @ [cell.var(ddof=1) for cell in cells])
    return seeds_needed(
        difference, lambda seeds: math.sqrt(square / seeds), lambda seeds: len(cells) * (seeds - 1)
    )


# --- several at once ----------------------------------------------------------------------------------------


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """The p values adjusted by Holm's method for all of them being looked at."""
    if not p_values:
        return ()
    gc.freeze()  # statsmodels collects garbage here: a large heap of runs would take longer than all tests
    try:
        return tuple(float(p) for p in multipletests(p_values, ALPHA, method="holm")[1])
    finally:
        gc.unfreeze()


# --- power --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def needed_ratio(degrees: float, alpha: float = ALPHA) -> float:
    """How many standard errors a difference must be for the two-sided t test to find it, in its own
    direction, with 80 % power (noncentral t)."""

    def lacking(ratio: float) -> float:
        return float(ttest_power(ratio, 1, alpha / 2, df=degrees, alternative="larger")) - POWER

    high = 2.0
    while lacking(high) < 0:
        high *= 2
    return float(optimize.brentq(lacking, 0.0, high, xtol=1e-10))


def seeds_needed(
    difference: float, error: Callable[[int], float], degrees: Callable[[int], float]
) -> int | None:
    """The fewest seeds per point, at least 2, with which the test has 80 % power for this difference.

    `error`, `degrees`: standard error and degrees of freedom with so many seeds per point. None where the
    difference is 0 or so small that no number of seeds up to `MOST_SEEDS` would do.
    """

    def is_enough(seeds: int) -> bool:
        return degrees(seeds) >= 1 and abs(difference) >= error(seeds) * needed_ratio(degrees(seeds))

    if difference == 0:
        return None
    high = 2
    while not is_enough(high):
        high *= 2
        if high > MOST_SEEDS:
            return None
    low = max(2, high // 2)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle + 1, high)
    return low


# --- curves -------------------------------------------------------------------------------------------------


def mean_height(steps: np.ndarray, values: np.ndarray, first: float, last: float) -> float | None:
    """The area under a curve (trapezoids) between two steps, divided by their distance: its mean height.
    None where the curve does not span them."""
    if len(steps) < 2 or last <= first or steps[0] > first or steps[-1] < last:
        return None
    inside = (steps > first) & (steps < last)
    at = np.concatenate([[first], steps[inside], [last]])
    return float(integrate.trapezoid(np.interp(at, steps, values), at) / (last - first))


def first_at(values: np.ndarray, threshold: float, is_higher_better: bool) -> int | None:
    """The index of the first value at or past the threshold; NaN is not past it. None where none is."""
    reached = values >= threshold if is_higher_better else values <= threshold
    return int(reached.argmax()) if reached.any() else None
