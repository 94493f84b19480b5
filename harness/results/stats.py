"""What may be concluded from a few seeds: intervals, tests, effect sizes, power. The distributions are
scipy's.

In: numbers, one per run, by cell (a cell is one combination of settings with its seeds). Out: `Estimate`s and
`Tested` contrasts of cells' means. Cells with equally many runs share one variance, pooled within them: for
two cells that is Student's t test. Otherwise each keeps its own (Welch–Satterthwaite), since with unequal
numbers of runs a pooled variance makes findings of unequal scatter.

Power is computed with the standard deviation that was observed, which few seeds know only roughly.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import integrate, optimize
from scipy import stats as scipy_stats

from harness.results.comparing.types import Estimate
from harness.results.task_statistics import LEVEL, mean_interval

ALPHA = 1 - LEVEL
POWER = 0.8
MOST_SEEDS = 1 << 20  # a difference that needs more seeds than this is none that anybody looks for
_ROUNDING = 1e-12  # scatter below this part of the numbers is the rounding of equal ones


@dataclass(frozen=True)
class Tested:
    """A difference of means and its test over seeds. `low`, `high`: 95 % t interval; `effect`: Hedges' g;
    `detectable`: the difference that these seeds would have found with 80 % power, tested alone at 5 %;
    `seeds_needed`: per point, to find the difference that was observed."""

    difference: float
    low: float
    high: float
    p: float
    degrees: float
    effect: float
    detectable: float
    seeds_needed: int | None


def estimate(values: np.ndarray) -> Estimate | None:
    """Mean, sample standard deviation and 95 % t interval of one number per run, float [n]; None for none.

    Runs that are all equal have no interval: it would have no width, and say that other seeds are known.
    """
    if len(values) == 0:
        return None
    n, mean = len(values), float(np.mean(values))
    if n == 1:
        return Estimate(n, mean)
    interval = mean_interval(values) if has_scatter([values]) else None
    if interval is None:
        return Estimate(n, mean, 0.0)
    return Estimate(n, mean, float(np.std(values, ddof=1)), interval.low, interval.high)


def has_scatter(cells: Sequence[np.ndarray]) -> bool:
    """True if runs of any one cell differ by more than rounding."""
    scale = max((float(np.abs(cell).max()) for cell in cells if len(cell)), default=0.0)
    return any(len(cell) > 1 and float(np.ptp(cell)) > _ROUNDING * scale for cell in cells)


def contrast(cells: Sequence[np.ndarray], weights: np.ndarray) -> Tested | None:
    """Test whether the cells' means, weighted and summed, are 0. Every cell has two runs or more. None where
    none scatters, or where the numbers are too large or too small to square."""
    if not has_scatter(cells):
        return None
    runs = np.array([len(cell) for cell in cells])
    is_pooled = len(set(runs)) == 1
    difference, spare = float(weights @ [cell.mean() for cell in cells]), float((runs - 1).sum())
    with np.errstate(over="ignore"):
        variances = np.array([cell.var(ddof=1) for cell in cells])
        pooled = float((runs - 1) @ variances) / spare
        parts = weights**2 * variances / runs
        square = pooled * float((weights**2 / runs).sum()) if is_pooled else float(parts.sum())
    if not 0 < square < math.inf:
        return None
    degrees = spare if is_pooled else 1 / float(((parts / square) ** 2 / (runs - 1)).sum())
    error = math.sqrt(square)
    half = float(scipy_stats.t.ppf(1 - ALPHA / 2, degrees)) * error
    return Tested(
        difference=difference,
        low=difference - half,
        high=difference + half,
        p=2 * float(scipy_stats.t.sf(abs(difference) / error, degrees)),
        degrees=degrees,
        effect=difference / math.sqrt(pooled) * (1 - 3 / (4 * spare - 1)),  # Hedges 1981
        detectable=error * needed_ratio(degrees),
        seeds_needed=seeds_needed(difference, float(weights**2 @ variances), len(cells)),
    )


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """The p values adjusted for all of them being looked at (Holm 1979)."""
    p = np.array(p_values, dtype=float)
    order = p.argsort()
    adjusted = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)).clip(max=1.0)
    return tuple(adjusted[order.argsort()].tolist())


# --- power --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def needed_ratio(degrees: float, alpha: float = ALPHA) -> float:
    """How many standard errors a difference must be for the two-sided t test to find it, in its own
    direction, with 80 % power (noncentral t)."""
    threshold = scipy_stats.t.isf(alpha / 2, degrees)

    def lacking(ratio: float) -> float:
        return float(scipy_stats.nct.sf(threshold, degrees, ratio)) - POWER

    high = 2.0
    while lacking(high) < 0:
        high *= 2
    return float(optimize.brentq(lacking, 0.0, high, xtol=1e-10))


def seeds_needed(difference: float, square: float, cells: int) -> int | None:
    """The fewest seeds per point, at least 2, with which a contrast of so many equal cells has 80 % power for
    this difference. `square`: its squared standard error with one seed each. None where more than
    `MOST_SEEDS` would be needed."""

    def is_enough(seeds: int) -> bool:
        return abs(difference) >= math.sqrt(square / seeds) * needed_ratio(cells * (seeds - 1))

    found = 2 + bisect_left(range(2, MOST_SEEDS + 1), True, key=is_enough)
    return found if found <= MOST_SEEDS else None


# --- curves -------------------------------------------------------------------------------------------------


def mean_height(steps: np.ndarray, values: np.ndarray, first: float, last: float) -> float | None:
    """The area under a curve (trapezoids) between two steps, divided by their distance: its mean height.
    None where the curve does not span them."""
    if len(steps) < 2 or last <= first or steps[0] > first or steps[-1] < last:
        return None
    inside = (steps > first) & (steps < last)
    at = np.concatenate([[first], steps[inside], [last]])
    return float(integrate.trapezoid(np.interp(at, steps, values), at) / (last - first))
