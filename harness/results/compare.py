"""Runs compared: a `Study` in, a `Comparison` out, with nothing said that the seeds do not bear.

`compare` reads the runs' folders once each; `compare_results` is the same for results that are in memory.
`compare_folders` takes any result folders (`harness compare`). Numpy, scipy and statsmodels are loaded with
this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.results.collect import collect
from harness.results.comparing import metrics
from harness.results.comparing.contrasts import expected, key_effects
from harness.results.comparing.points import best_point, measured, point_results
from harness.results.comparing.recorded import Planned, as_asked, gathered
from harness.results.comparing.runs import ENDED_BY_ITSELF, RunFiles, read_files, result_of, settled
from harness.results.comparing.types import Comparison, Goal, NotComparableError, RunResult, Study
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
    runs, yardstick = measured(study, settled(results))
    effects, pairs = key_effects(study, runs)
    points = point_results(study, runs)
    return Comparison(
        study=study,
        metric=study.metric,
        runs=tuple(replace(run, tasks=()) for run in runs),
        points=points,
        keys=effects,
        yardstick=yardstick,
        best=best_point(study, points),
        expected=expected(study, effects),
        missing=tuple(f"{run.run.name}: {run.why_not}" for run in runs if run.value is None),
        confounds=tuple(confounds),
        interactions=pairs,
    )
