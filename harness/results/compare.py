"""Runs compared: a `Study` in, a `Comparison` out, with nothing said that the seeds do not bear.

`compare` reads the runs' folders once each; `compare_results` is the same for results that are in memory.
`compare_folders` takes any result folders (`harness compare`). Numpy, scipy and statsmodels are loaded with
this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from harness.results import stats
from harness.results.collect import collect
from harness.results.comparing import metrics
from harness.results.comparing.contrasts import expected, key_effects
from harness.results.comparing.recorded import Planned, as_asked, gathered
from harness.results.comparing.runs import ENDED_BY_ITSELF, RunFiles, read_files, result_of, settled
from harness.results.comparing.types import (
    Comparison,
    Estimate,
    Goal,
    NotComparableError,
    Point,
    PointResult,
    RunResult,
    Study,
    Yardstick,
)
from harness.state import COUNTING


def compare(study: Study, confounds: tuple[str, ...] = ()) -> Comparison:
    """Read the runs of a study from their folders, and compare them.

    `confounds`: what is known to differ between the points beside the keys. Never fails for what the folders
    hold: runs that do not count, and why, are in `missing`.
    """
    return _compared(study, [read_files(run) for run in study.runs], confounds)


def compare_folders(
    folders: Sequence[Path],
    planned: Planned,
    metric: str = "",
    goal: Goal | None = None,
    threshold: float | None = None,
) -> Comparison:
    """Compare any runs by their recorded settings: result folders, and folders of sweeps with all their runs.

    `planned`: how sweeps were planned; a sweep alone is compared by `harness.sweep.reporting`. `goal` None:
    the sweeps' own, else "max". Raises NotComparableError as `comparable`, for folders that hold no run, and
    for runs that differ in more than could be told apart.
    """
    found = gathered(folders, planned)
    compared = _compared(as_asked(found.study, metric, goal, threshold), found.files, found.confounds)
    compared = comparable(replace(compared, missing=(*compared.missing, *found.left_out)))
    return with_metric_judged(compared, found.study.metric)


def with_metric_judged(found: Comparison, planned: str) -> Comparison:
    """The comparison, marked where its metric is not the one that was planned; "": none was."""
    named = metrics.full_name(planned)
    if not found.metric or found.metric == named:
        return found
    line = f"the metric that was planned is {named}, and these numbers are {found.metric}"
    return replace(found, chosen_afterwards=True, confounds=(*found.confounds, *([line] if planned else [])))


def comparable(found: Comparison) -> Comparison:
    """The comparison itself. Raises NotComparableError where there was nothing to compare, no run has the
    metric, or none was named and none can be chosen."""
    if len(found.runs) < 2:
        why = f" ({'; '.join(found.missing)})" if found.missing else ""
        raise NotComparableError(f"one run alone cannot be compared: name another, or a sweep{why}")
    counting = [result for result in found.runs if result.outcome in COUNTING]
    if not counting or any(result.curve.steps for result in found.runs):
        return found
    common = metrics.common([collect(result.run.folder) for result in counting])
    if not found.metric:
        raise NotComparableError(
            "which metric to compare by is not clear: name one with --metric; "
            f"{metrics.suggestion('', common)}"
        )
    raise NotComparableError(f"no run has {found.metric}: {metrics.suggestion(found.metric, common)}")


def _compared(study: Study, files: Sequence[RunFiles], confounds: tuple[str, ...]) -> Comparison:
    metric = metrics.full_name(study.metric)
    if not metric:
        ended = [one.record for one in files if one.outcome in ENDED_BY_ITSELF]
        metric = metrics.choose(ended or [one.record for one in files if one.may_count])
    results = [result_of(one, metric, study.not_run) for one in files]
    found = compare_results(replace(study, metric=metric), results, confounds)
    return replace(found, study=study, chosen_afterwards=bool(metric) and not study.metric)


def compare_results(
    study: Study, results: Sequence[RunResult], confounds: tuple[str, ...] = ()
) -> Comparison:
    """Compare runs whose results are known. The results keep no tasks: what they tell is in the contrasts."""
    runs, yardstick = _measured(study, settled(results))
    effects, pairs = key_effects(study, runs)
    points = tuple(
        _point_result(study, point, [run for run in runs if run.run.point == point.name])
        for point in study.points
    )
    means = {point.point.name: point.value.mean for point in points if point.value is not None}
    best = max if study.goal == "max" else min
    return Comparison(
        study=study,
        metric=study.metric,
        runs=tuple(replace(run, tasks=()) for run in runs),
        points=points,
        keys=effects,
        yardstick=yardstick,
        best=best(means, key=means.__getitem__, default=None),
        expected=expected(study, effects),
        missing=tuple(f"{run.run.name}: {run.why_not}" for run in runs if run.value is None),
        confounds=tuple(confounds),
        interactions=pairs,
    )


# --- runs measured alike, and points over their seeds ------------------------------------------------------


def _measured(study: Study, results: Sequence[RunResult]) -> tuple[tuple[RunResult, ...], Yardstick]:
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
    return tuple(_with_area(study, result, yardstick) for result in results), yardstick


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


def _with_area(study: Study, result: RunResult, yardstick: Yardstick) -> RunResult:
    if result.value is None or not result.curve.steps:
        return result
    area = stats.mean_height(*_finite(result), *yardstick.span) if yardstick.span else None
    at = None
    if yardstick.threshold is not None:
        at = stats.first_at(np.array(result.curve.values), yardstick.threshold, study.goal == "max")
    return replace(result, area=area, steps_to_threshold=None if at is None else result.curve.steps[at])


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
