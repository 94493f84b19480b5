"""95 % intervals over tasks; every method is scipy's.

The unit is the task (the cluster), never the episode: episodes of one task share its difficulty. Means over
tasks get Student's t interval; where every task has the same 0 or 1 it cannot be computed, and the Wilson
score interval over the tasks stands in. (A BCa bootstrap was tried for few tasks: at 4 to 8 tasks it
excluded a true zero in 11 to 14 % of simulated runs, Student's t in 2 to 5 %.) An interval over tasks says
how another draw of tasks would move the number; it says nothing about other seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import scipy  # its parts load when they are used: most runs need none

from harness.results.types import Interval, TaskResult

LEVEL = 0.95


def mean_interval(values: np.ndarray, bounds: tuple[float, float] | None = None) -> Interval | None:
    """The interval of the mean of one value per task, float [n]; None where none can be computed.

    `bounds` is the possible range of the values; the interval is cut to it.
    """
    if len(values) < 2 or not np.isfinite(values).all():
        return None
    if values.min() == values.max():
        if bounds != (0.0, 1.0) or values[0] not in bounds:
            return None
        test = scipy.stats.binomtest(int(values.sum()), len(values))
        wilson = test.proportion_ci(LEVEL, method="wilson")
        return Interval(float(wilson.low), float(wilson.high), "Wilson interval over tasks", len(values))
    interval = scipy.stats.ttest_1samp(values, 0.0).confidence_interval(LEVEL)
    low, high = float(interval.low), float(interval.high)
    if not np.isfinite([low, high]).all():
        return None
    if bounds is not None:
        low, high = max(low, bounds[0]), min(high, bounds[1])
    return Interval(low, high, "t interval over tasks", len(values))


def by_recipe(
    recipe: str, validations: Sequence[Sequence[TaskResult]], measure: str, unit: str
) -> tuple[float, Interval | None]:
    """A number of the tasks of one validation, or of two for `paired_difference`, and its interval."""
    if recipe == "paired_difference":
        values = paired(validations[0], validations[1], measure)
        return float(values.mean()), mean_interval(values, (-1.0, 1.0))
    if recipe == "episode_std":
        return float(np.std([reward for task in validations[0] for reward in task.rewards])), None
    values = task_values(validations[0], measure)
    if recipe == "task_mean":
        return float(values.mean()), mean_interval(values, (0.0, 1.0) if unit == "rate" else None)
    return float(values.sum() if recipe == "task_sum" else values.min()), None


def paired(earlier: Sequence[TaskResult], later: Sequence[TaskResult], measure: str) -> np.ndarray:
    """later − earlier of `measure` for the tasks in both, float [common tasks]."""
    before = dict(zip((task.task_id for task in earlier), task_values(earlier, measure), strict=True))
    after = dict(zip((task.task_id for task in later), task_values(later, measure), strict=True))
    return np.array([after[name] - before[name] for name in after if name in before])


def measure_of(metric: str) -> str:
    """What `task_values` calls a metric (`val/…`) that the tasks of a validation tell; "" for any other."""
    name, _, k = metric.partition("@")
    if name == "val/task_pass_rate" and k:
        return "pass" if k == "1" else f"first@{k}"
    if name == "val/unbiased_pass" and k:
        return f"unbiased@{k}"
    return "reward" if metric == "val/mean_reward" else ""


def of_tasks(tasks: Sequence[TaskResult], metric: str) -> float | None:
    """A metric from the results of the tasks of a validation; None where they do not tell it."""
    measure = measure_of(metric)
    if not measure or not tasks:
        return None
    k = int(measure.partition("@")[2] or 1)
    if k > min(len(task.successes) for task in tasks):
        return None
    return float(task_values(tasks, measure).mean())


def task_values(tasks: Sequence[TaskResult], measure: str) -> np.ndarray:
    """One number per task, float [n].

    `pass`: share of successful episodes. `first@k`: 1 if one of the first k succeeded. `unbiased@k`: the
    unbiased estimator 1 − C(n−c, k)/C(n, k) of Chen et al. 2021 (n episodes, c successes). `reward`: mean
    reward. `all`: 1 if all succeeded. `any`: 1 if one succeeded. `episodes`: how many episodes. `tasks`: 1.
    """
    name, _, k = measure.partition("@")
    if name not in _MEASURES:
        raise ValueError(f"unknown measure {name!r}")
    return np.array([_MEASURES[name](task, int(k or 0)) for task in tasks], dtype=float)


def _unbiased(task: TaskResult, k: int) -> float:
    n, c = len(task.successes), sum(task.successes)
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


_MEASURES: dict[str, Callable[[TaskResult, int], float]] = {
    "pass": lambda task, k: sum(task.successes) / len(task.successes),
    "first": lambda task, k: any(task.successes[:k]),
    "unbiased": _unbiased,
    "reward": lambda task, k: float(np.mean(task.rewards)),
    "all": lambda task, k: all(task.successes),
    "any": lambda task, k: any(task.successes),
    "episodes": lambda task, k: len(task.successes),
    "tasks": lambda task, k: 1,
}
