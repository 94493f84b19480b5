"""Runs compared: a `Study` in, a `Comparison` out, with nothing said that the seeds do not bear.

`compare` reads the runs' folders once each; `compare_results` is the same for results that are in memory.
`compare_folders` takes any result folders (`harness compare`). Numpy and scipy are loaded with this
module.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from harness.results import stats
from harness.results.comparing import metrics
from harness.results.comparing.contrasts import expected, key_effects
from harness.results.comparing.provenances import differs
from harness.results.comparing.recorded import Planned, gathered
from harness.results.comparing.runs import ENDED_BY_ITSELF, RunFiles, read_files, results_of, settled
from harness.results.comparing.types import (
    SIGN,
    Asked,
    Comparison,
    Differing,
    Estimate,
    NotComparableError,
    Point,
    PointResult,
    RunResult,
    Study,
    Yardstick,
)
from harness.results.leading import goal_of
from harness.results.result import metric_names
from harness.results.task_statistics import measure_of, of_tasks
from harness.state import NOT_PLANNED
from monitors.metrics.names import direction


def compare(
    study: Study,
    confounds: Sequence[str] = (),
    asked: Asked | None = None,
    differing: Sequence[Differing] = (),
    read: Sequence[RunFiles] | None = None,
    left_out: Sequence[str] = (),
) -> Comparison:
    """Read the runs of a study from their folders, and compare them.

    `confounds`, `differing`: what is known to differ between the points beside the keys. Never fails for
    what the folders hold: runs that do not count, and why, are in `missing`. `asked`: what a person asks for
    in the place of the study's own; then NotComparableError is raised where there is nothing to compare, no
    run has the metric, or none was named and none can be chosen. `read`: the runs' files, where they were
    read before; `left_out`: further runs that do not count.
    """
    files = [read_files(run) for run in study.runs] if read is None else read
    known = [one for one in files if one.story.state.blueprint != NOT_PLANNED]
    if not study.metric:
        named = metrics.planned((one.story.state.blueprint for one in known), (one.record for one in known))
        study = replace(study, metric=named)
    names = dict.fromkeys(name for one in files for name in metric_names(one.record))
    planned = metrics.full_name(study.metric, names)
    if asked is not None:
        given = {name: value for name, value in vars(asked).items() if value not in ("", None)}
        if metrics.full_name(asked.metric or study.metric, names) != planned:
            study = replace(study, goal=None, metric_why="")  # which are the planned metric's
        study = replace(study, **given)
    metric = metrics.full_name(study.metric, names)
    if not metric:
        ended = [one for one in files if one.outcome in ENDED_BY_ITSELF]
        ended = ended or [one for one in files if one.may_count]
        plan = ended[0].story.state.blueprint if ended else NOT_PLANNED
        if (led := metrics.choose([one.record for one in ended], plan)) is not None:
            metric = led.name
            study = replace(study, goal=study.goal or led.goal, metric_why=led.why)
    elif study.goal is None and files:
        study = replace(study, goal=goal_of(files[0].story.state.blueprint, metric))
    is_other = bool(metric) and metric != planned
    if is_other and planned:
        confounds = (*confounds, f"the metric that was planned is {planned}, and these numbers are {metric}")
    results, measured_by = results_of(files, metric, study.not_run)
    found = compare_results(replace(study, metric=metric), results, confounds, differing)
    missing = (*found.missing, *left_out)
    if asked is not None:
        _refuse(results, files, metric, missing)
    study = replace(study, goal=found.study.goal)
    found = replace(found, study=study, missing=missing, measured_by=measured_by)
    return replace(found, chosen_afterwards=is_other)


def compare_folders(folders: Sequence[Path], planned: Planned, asked: Asked = Asked()) -> Comparison:
    """Compare any runs by their recorded settings: result folders, and folders of sweeps with all their runs.

    `planned`: how sweeps were planned; a sweep alone is compared by `harness.sweep.reporting`. Raises
    NotComparableError as `compare`, for folders that hold no run, and for runs that differ in more than could
    be told apart.
    """
    study, files, differing, left_out = gathered(folders, planned)
    return compare(study, (), asked, differing, files, left_out)


def _refuse(
    results: Sequence[RunResult], files: Sequence[RunFiles], metric: str, missing: Sequence[str]
) -> None:
    if len(results) < 2:
        why = f" ({'; '.join(missing)})" if missing else ""
        raise NotComparableError(f"one run alone cannot be compared: name another, or a sweep{why}")
    counting = [one.record for one in files if one.may_count]
    if counting and not any(result.source for result in results):
        what = f"no run has {metric}: "
        if not metric:
            what = "which metric to compare by is not clear: name one with --metric; "
        raise NotComparableError(what + metrics.suggestion(metric, metrics.common(counting)))


def compare_results(
    study: Study,
    results: Sequence[RunResult],
    confounds: Sequence[str] = (),
    differing: Sequence[Differing] = (),
) -> Comparison:
    """Compare runs whose results are known. The results keep no tasks: what they tell is in the contrasts.

    Where the study has no goal, it is what the metric's name says.
    """
    study = replace(study, goal=study.goal or direction(study.metric))
    runs, yardstick = _measured(study, settled(results))
    effects, pairs = key_effects(study, runs, differing)
    points = tuple(
        _point_result(study, point, [run for run in runs if run.run.point == point.name])
        for point in study.points
    )
    means = {point.point.name: point.value.mean for point in points if point.value is not None}
    is_confounded = any(one.finding == "confounded" for effect in effects for one in effect.contrasts)
    best = None if is_confounded else {"max": max, "min": min}.get(study.goal or "")
    return Comparison(
        study=study,
        metric=study.metric,
        runs=tuple(replace(run, tasks=()) for run in runs),
        points=points,
        keys=effects,
        yardstick=yardstick,
        best=best(means, key=means.__getitem__, default=None) if best else None,
        expected=expected(study, effects),
        missing=tuple(f"{run.run.name}: {run.why_not}" for run in runs if run.value is None),
        confounds=(*confounds, *(differs(one.what, one.values) for one in differing)),
        interactions=pairs,
    )


# --- runs measured alike, and points over their seeds ------------------------------------------------------


def _measured(study: Study, results: Sequence[RunResult]) -> tuple[tuple[RunResult, ...], Yardstick]:
    """Area and time to threshold of every run that counts; where the last validations had different tasks,
    the value over those that all of them had.

    The threshold is the study's, else the mean value of the baseline point. Areas are taken over the steps
    that all curves span. Where values were measured apart from the training, its curves say nothing of them.
    """
    is_apart = any(one.evaluated for one in results if one.value is not None)
    sets = {frozenset(task.task_id for task in one.tasks) for one in results if one.value is not None}
    sets = sets - {frozenset()} if measure_of(study.metric) else set()
    shared = frozenset.intersection(*sets) if len(sets) > 1 else frozenset()
    if shared:
        results = [_on_tasks(result, shared, study.metric) for result in results]
    threshold = study.threshold
    if threshold is None and not is_apart:
        baselines = {point.name for point in study.points if point.is_baseline}
        values = [one.value for one in results if one.run.point in baselines and one.value is not None]
        threshold = float(np.mean(values)) if values else None
    ends = [(steps[0], steps[-1]) for steps, _ in map(_finite, results) if len(steps) > 1]
    first, last = max((one for one, _ in ends), default=0), min((end for _, end in ends), default=0)
    span = (int(first), int(last)) if first < last and not is_apart else None
    yardstick = Yardstick(threshold, study.threshold is None, span, len(sets) > 1, len(shared))
    return tuple(_with_area(study, result, yardstick) for result in results), yardstick


def _on_tasks(result: RunResult, shared: frozenset[str], metric: str) -> RunResult:
    if result.value is None or not result.tasks:
        return result
    value = of_tasks([task for task in result.tasks if task.task_id in shared], metric)
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
    sign, threshold = SIGN[study.goal], yardstick.threshold
    reached = (
        step
        for step, value in zip(result.curve.steps, result.curve.values, strict=True)
        if sign and threshold is not None and sign * value >= sign * threshold
    )
    return replace(result, area=area, steps_to_threshold=next(reached, None))


def _point_result(study: Study, point: Point, runs: Sequence[RunResult]) -> PointResult:
    counting = [run for run in runs if run.value is not None]
    hours = [run.hours * study.cost_units for run in counting if run.hours is not None]
    cost = float(np.mean(hours)) if hours else None
    gains = [(run.value or 0.0) - values[0] for run in counting for values in _finite(run)[1:] if len(values)]
    gain = SIGN[study.goal] * float(np.mean(gains)) if gains else 0.0
    return PointResult(
        point=point,
        value=_estimate(run.value for run in counting),
        planned=len(runs),
        area=_estimate(run.area for run in counting),
        steps_to_threshold=_estimate(run.steps_to_threshold for run in counting),
        reached_threshold=sum(run.steps_to_threshold is not None for run in counting),
        cost=cost,
        cost_per_point=cost / gain / 100
        if cost is not None and gain > 0 and metrics.is_rate(study.metric)
        else None,
    )


def _estimate(values: Iterable[float | int | None]) -> Estimate | None:
    return stats.estimate(np.array([value for value in values if value is not None], dtype=float))
