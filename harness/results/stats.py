"""What may be concluded from a few seeds: intervals, tests, effect sizes, power.

In: numbers, one per run, by cell (a cell is one combination of settings with its seeds). Out: `Estimate`s and
`Tested` contrasts of cells' means. Every cell keeps its own variance (Welch 1947, Satterthwaite 1946), in all
designs and whatever the runs show: few runs cannot tell whether scatter is equal, and a test chosen by a look
at the scatter loses its level (Zimmerman 2004). Where cells have unequal numbers of runs, each counts
with the degrees of freedom of the smallest, since the usual ones find too much when the small cell scatters
most.

The detectable difference takes the standard deviation that was observed, which few seeds know only roughly;
the power of a plan (`planned_ratio`) takes all cells to scatter alike.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import integrate, optimize, special

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
    difference, spare = float(weights @ [cell.mean() for cell in cells]), float((runs - 1).sum())
    with np.errstate(over="ignore"):
        variances = np.array([cell.var(ddof=1) for cell in cells])
        parts = weights**2 * variances / runs
        square = float(parts.sum())
    if not 0 < square < math.inf:
        return None
    alike = 1 / float(((parts / square) ** 2).sum())  # so many cells carry the error
    degrees, error = alike * int(runs.min() - 1), math.sqrt(square)
    half = float(special.stdtrit(degrees, 1 - ALPHA / 2)) * error
    scale = math.sqrt(float((runs - 1) @ variances) / spare)
    return Tested(
        difference=difference,
        low=difference - half,
        high=difference + half,
        p=2 * float(special.stdtr(degrees, -abs(difference) / error)),
        degrees=degrees,
        effect=difference / scale * (1 - 3 / (4 * spare - 1)),  # Hedges 1981
        detectable=error * needed_ratio(degrees),
        seeds_needed=seeds_needed(difference, float(weights**2 @ variances), alike),
    )


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """The p values adjusted for all of them being looked at (Holm 1979)."""
    p = np.array(p_values, dtype=float)
    order = p.argsort()
    adjusted = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)).clip(max=1.0)
    return tuple(adjusted[order.argsort()].tolist())


# --- power --------------------------------------------------------------------------------------------------


def needed_ratio(degrees: float, alpha: float = ALPHA) -> float:
    """How many standard errors a difference must be for the two-sided t test to find it, in its own
    direction, with 80 % power (noncentral t)."""
    critical = float(special.stdtrit(degrees, 1 - alpha / 2))
    return float(special.nctdtrinc(degrees, 1 - POWER, critical))


@lru_cache(maxsize=256)
def planned_ratio(cells: int, seeds: int) -> float:
    """How many standard errors a contrast of so many cells must be for `contrast` to find it with 80 % power,
    before anything is known of their scatter: normal, alike in all, the mean over many draws of it."""
    rng = np.random.default_rng(0)
    drawn = rng.chisquare(seeds - 1, (max(400, 40_000 // cells), cells)) / (seeds - 1)
    squares = drawn.sum(axis=1)
    degrees = squares**2 / (drawn**2).sum(axis=1) * (seeds - 1)
    critical = special.stdtrit(degrees, 1 - ALPHA / 2) * np.sqrt(squares / cells)

    def lacking(ratio: float) -> float:
        return float(special.ndtr(ratio - critical).mean()) - POWER

    return float(optimize.brentq(lacking, 0.0, 1e3))


def seeds_needed(difference: float, square: float, cells: float) -> int | None:
    """The fewest seeds per point, at least 2, with which a contrast that so many cells carry has 80 % power
    for this difference. `square`: its squared standard error with one seed each. None where more than
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
