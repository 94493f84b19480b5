"""What can be said of a sweep before it runs: how long it takes, whether the budget is enough, and how small
a difference it could find.

In: the plan, and how long runs of the blueprint took. Out: `Forecast`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.earlier_runs import Estimate
    from harness.sweep.plan import SweepPlan


@dataclass(frozen=True)
class Forecast:
    """Times in seconds.

    `run_s`, `all_s`: expected, None where no earlier run tells it; `source`: which runs do; `most_run_s`,
    `most_all_s`: at the runs' own time limits. `within_budget`: how many runs the budget is enough for, by
    what is expected, else at the limits; None without a budget. `two_points`: standard deviations between
    seeds by which two points must differ to be found with 80 % power, None with one seed; `two_levels`: the
    same for two values of a key, averaged over the other keys of a grid.
    """

    runs: int
    run_s: float | None
    all_s: float | None
    most_run_s: float
    most_all_s: float
    within_budget: int | None
    seeds: int
    two_points: float | None
    two_levels: dict[str, float]
    source: str = ""

    @property
    def fits_budget(self) -> bool | None:
        """True if the budget is enough for all runs; None without one."""
        return None if self.within_budget is None else self.within_budget >= self.runs


def forecast(plan: SweepPlan, estimate: Estimate | None, most_s: float) -> Forecast:
    """`estimate`: what one run takes, None if unknown; `most_s`: what it may take at most. The canary,
    whose time is not known, is not counted."""
    estimate_s = estimate.run_s if estimate is not None else None
    runs, seeds = len(plan.runs), len(plan.runs) // len(plan.points)
    rounds = math.ceil(runs / plan.parallel)
    one = most_s if estimate_s is None else estimate_s
    within = None
    if plan.budget_s is not None:
        within = min(runs, math.floor(plan.budget_s / one) * plan.parallel) if one > 0 else runs
    return Forecast(
        runs=runs,
        run_s=estimate_s,
        all_s=None if estimate_s is None else rounds * estimate_s,
        most_run_s=most_s,
        most_all_s=rounds * most_s,
        within_budget=within,
        seeds=seeds,
        two_points=detectable(seeds, 1),
        two_levels=_levels(plan, seeds),
        source=estimate.source if estimate is not None else "",
    )


def _levels(plan: SweepPlan, seeds: int) -> dict[str, float]:
    if plan.design != "grid" or len(plan.keys) < 2:
        return {}
    found = {key.name: detectable(seeds, len(plan.points) // len(key.levels)) for key in plan.keys}
    return {name: ratio for name, ratio in found.items() if ratio is not None}


def detectable(seeds: int, points: int) -> float | None:
    """Standard deviations that two groups of so many points must differ by: the test of `stats.contrast` at
    5 %, 80 % power if all points scatter alike, before any correction for several comparisons; None with one
    seed."""
    from harness.results.stats import planned_ratio

    if seeds < 2:
        return None
    return planned_ratio(2 * points, seeds) * math.sqrt(2 / (seeds * points))
