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
from harness.results.comparing.types import Estimate, Point, PointResult, RunResult, Study, Yardstick


def measured(study: Study, results: Sequence[RunResult]) -> tuple[tuple[RunResult, ...], Yardstick]:
    """Area and time to threshold of every run that counts; where the last validations had different tasks,
    the value over those that all of them had.

    The threshold is the study's, else the mean value of the baseline point. Areas are taken over the steps
    that all curves span.
    """
    sets = {frozenset(task.task_id for task in one.tasks) for one in results if one.value is not None}
    sets = sets - {frozenset()} if metrics.measure_of(study.metric) else set()
    shared = frozenset.intersection(*sets) if len(sets) > 1 else frozenset()
    if shared:
        results = [_on_tasks(result, shared, study.metric) for result in results]
    threshold = study.threshold
    if threshold is None:
        baselines = {point.name for point in study.points if point.is_baseline}
        values = [one.value for one in results if one.run.point in baselines and one.value is not None]
        threshold = float(np.mean(values)) if values else None
    ends = [(steps[0], steps[-1]) for steps, _ in map(_finite, results) if len(steps) > 1]
    first, last = max((one for one, _ in ends), default=0), min((end for _, end in ends), default=0)
    span = (int(first), int(last)) if first < last else None
    yardstick = Yardstick(threshold, study.threshold is None, span, len(sets) > 1, len(shared))
    return tuple(_measured(study, result, yardstick) for result in results), yardstick


def _on_tasks(result: RunResult, shared: frozenset[str], metric: str) -> RunResult:
    if result.value is None or not result.tasks:
        return result
    value = metrics.of_tasks([task for task in result.tasks if task.task_id in shared], metric)
    return result if value is None else replace(result, value=value)


def _finite(result: RunResult) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values of a run that counts, without NaN and infinities."""
    steps, values = np.array(result.curve.steps, dtype=float), np.array(result.curve.values, dtype=float)
    finite = np.isfinite(values) & (result.value is not None)
    return steps[finite], values[finite]


def _measured(study: Study, result: RunResult, yardstick: Yardstick) -> RunResult:
    if result.value is None or not result.curve.steps:
        return result
    area = stats.mean_height(*_finite(result), *yardstick.span) if yardstick.span else None
    at = None
    if yardstick.threshold is not None:
        at = stats.first_at(np.array(result.curve.values), yardstick.threshold, study.goal == "max")
    return replace(result, area=area, steps_to_threshold=None if at is None else result.curve.steps[at])


def point_results(study: Study, results: Sequence[RunResult]) -> tuple[PointResult, ...]:
    """Every point of the study, in its order."""
    return tuple(
        _point_result(study, point, [one for one in results if one.run.point == point.name])
        for point in study.points
    )


def _point_result(study: Study, point: Point, runs: Sequence[RunResult]) -> PointResult:
    counting = [run for run in runs if run.value is not None]
    hours = [run.hours * study.cost_units for run in counting if run.hours is not None]
    cost = float(np.mean(hours)) if hours else None
    sign = 1 if study.goal == "max" else -1
    gains = [
        (run.value or 0.0) - values[0] for run in counting for _, values in [_finite(run)] if len(values)
    ]
    gain = sign * float(np.mean(gains)) if gains else 0.0
    return PointResult(
        point=point,
        value=_estimate(run.value for run in counting),
        planned=len(runs),
        area=_estimate(run.area for run in counting),
        steps_to_threshold=_estimate(run.steps_to_threshold for run in counting),
        reached_threshold=sum(run.steps_to_threshold is not None for run in counting),
        cost=cost,
        cost_per_point=cost / gain * metrics.cost_per(study.metric)
        if cost is not None and gain > 0
        else None,
    )


def _estimate(values: Iterable[float | int | None]) -> Estimate | None:
    return stats.estimate(np.array([value for value in values if value is not None], dtype=float))


def best_point(study: Study, points: Sequence[PointResult]) -> str | None:
    """The point with the best mean; the first of equal ones."""
    known = {point.point.name: point.value.mean for point in points if point.value is not None}
    if not known:
        return None
    return (max if study.goal == "max" else min)(known, key=known.__getitem__)
