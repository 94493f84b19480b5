"""Runs measured alike, and each point over its seeds.

In: settled run results. Out: the same with area and time to threshold, the `Yardstick` that they were
measured with, and `PointResult`s.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from harness.results import stats
from harness.results.comparing import metrics
from harness.results.comparing.types import Estimate, PointResult, RunResult, Study, Yardstick


def on_shared_tasks(
    results: Sequence[RunResult], metric: str
) -> tuple[tuple[RunResult, ...], tuple[bool, int]]:
    """Where the last validations of the runs that count had different tasks: their values over the tasks that
    all of them had. Also whether tasks differ, and how many are shared."""
    counting = [result for result in results if result.value is not None and result.tasks]
    sets = [frozenset(task.task_id for task in result.tasks) for result in counting]
    if not metrics.measure_of(metric) or len(set(sets)) < 2:
        return tuple(results), (False, 0)
    shared = frozenset.intersection(*sets)
    if not shared:
        return tuple(results), (True, 0)
    return tuple(_on(result, shared, metric) for result in results), (True, len(shared))


def _on(result: RunResult, shared: frozenset[str], metric: str) -> RunResult:
    if result.value is None or not result.tasks:
        return result
    value = metrics.of_tasks([task for task in result.tasks if task.task_id in shared], metric)
    return result if value is None else replace(result, value=value)


def measure(
    study: Study, results: Sequence[RunResult], tasks: tuple[bool, int]
) -> tuple[tuple[RunResult, ...], Yardstick]:
    """Area and time to threshold of every run that counts.

    The threshold is the study's, else the mean value of the baseline point. Areas are taken over the steps
    that all curves span.
    """
    threshold = study.threshold
    if threshold is None:
        baselines = {point.name for point in study.points if point.is_baseline}
        values = [result.value for result in results if result.run.point in baselines]
        known = [value for value in values if value is not None]
        threshold = float(np.mean(known)) if known else None
    curves = [_finite(result) for result in results if result.value is not None]
    curves = [curve for curve in curves if len(curve[0]) > 1]
    span = None
    if curves:
        first, last = max(int(c[0][0]) for c in curves), min(int(c[0][-1]) for c in curves)
        span = (first, last) if first < last else None
    yardstick = Yardstick(threshold, study.threshold is None, span, *tasks)
    return tuple(_measured(study, result, yardstick) for result in results), yardstick


def _finite(result: RunResult) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values of a curve without NaN and infinities."""
    steps, values = np.array(result.curve.steps, dtype=float), np.array(result.curve.values, dtype=float)
    finite = np.isfinite(values)
    return steps[finite], values[finite]


def _measured(study: Study, result: RunResult, yardstick: Yardstick) -> RunResult:
    if result.value is None or not result.curve.steps:
        return result
    area = stats.mean_height(*_finite(result), *yardstick.span) if yardstick.span else None
    result = replace(result, area=area)
    if yardstick.threshold is None:
        return result
    values = np.array(result.curve.values)
    at = stats.first_at(values, yardstick.threshold, study.goal == "max")
    if at is None:
        return result
    return replace(result, steps_to_threshold=result.curve.steps[at])


# --- points -------------------------------------------------------------------------------------------------


def point_results(study: Study, results: Sequence[RunResult], metric: str) -> tuple[PointResult, ...]:
    """Every point of the study, in its order."""
    found = []
    for point in study.points:
        runs = [result for result in results if result.run.point == point.name]
        counting = [run for run in runs if run.value is not None]
        hours = [run.hours * study.cost_units for run in counting if run.hours is not None]
        cost = float(np.mean(hours)) if hours else None
        found.append(
            PointResult(
                point=point,
                value=_estimate(run.value for run in counting),
                planned=len(runs),
                area=_estimate(run.area for run in counting),
                steps_to_threshold=_estimate(run.steps_to_threshold for run in counting),
                reached_threshold=sum(run.steps_to_threshold is not None for run in counting),
                cost=cost,
                cost_per_point=_cost_per_point(study, counting, cost, metric),
            )
        )
    return tuple(found)


def _estimate(values: Iterable[float | int | None]) -> Estimate | None:
    return stats.estimate(np.array([value for value in values if value is not None], dtype=float))


def _cost_per_point(study: Study, runs: Sequence[RunResult], cost: float | None, metric: str) -> float | None:
    """Cost per `metrics.cost_per` of improvement over the first measurement, means over seeds."""
    gains = [run.value - _finite(run)[1][0] for run in runs if run.value is not None and len(_finite(run)[1])]
    if cost is None or not gains:
        return None
    gain = float(np.mean(gains)) * (1 if study.goal == "max" else -1)
    return cost / gain * metrics.cost_per(metric) if gain > 0 else None


def best_point(study: Study, points: Sequence[PointResult]) -> str | None:
    """The point with the best mean; the first of equal ones."""
    known = [(point.value.mean, point.point.name) for point in points if point.value is not None]
    if not known:
        return None
    return (max if study.goal == "max" else min)(known, key=lambda item: item[0])[1]
