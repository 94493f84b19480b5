"""What a reader must know to trust the numbers: how they were computed, and every reason for caution.

In: everything that was compared. Out: sentences, those that change how results must be read first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.results import stats
from harness.results.comparing import metrics
from harness.results.comparing.cells import Cells
from harness.results.comparing.points import Yardstick
from harness.results.comparing.types import Contrast, Interaction, RunResult, Study
from harness.results.facts import RECENT
from harness.wording import listed

_NAMED = 6


def notes(
    cells: Cells,
    results: Sequence[RunResult],
    metric: str,
    yardstick: Yardstick,
    contrasts: Sequence[Contrast],
    pairs: Sequence[Interaction],
) -> tuple[str, ...]:
    """All notes on a comparison."""
    return (
        *_on_missing(cells, results),
        *_on_scatter(cells),
        *_on_tasks(results, metric, yardstick),
        *_on_interactions(pairs),
        *_on_tests(cells, contrasts, pairs),
        *_on_measuring(cells.study, results, metric, yardstick),
    )


def _on_missing(cells: Cells, results: Sequence[RunResult]) -> Iterator[str]:
    for point in cells.study.points:
        runs = [result for result in results if result.run.point == point.name]
        missing = sum(run.value is None for run in runs)
        if 0 < missing < len(runs):
            yield (
                f"{point.name}: {missing} of {len(runs)} runs do not count; if they failed because of its "
                "settings, the mean over the others flatters it"
            )
    single = [name for name, values in cells.values.items() if len(values) == 1]
    if single and cells.is_replicated:
        out = "" if cells.study.design == "random" else ", and tests leave them out"
        yield f"one run counts: nothing can be said about other seeds of {listed(single, _NAMED)}{out}"
    elif single:
        yield (
            "every point has one run that counts: nothing can be said about other seeds, and no difference "
            "between points is tested over seeds"
        )


def _on_scatter(cells: Cells) -> Iterator[str]:
    same = [
        name for name, values in cells.values.items() if len(values) > 1 and not stats.has_scatter([values])
    ]
    bounds = [name for name in same if cells.values[name][0] in (0.0, 1.0)]
    others = [name for name in same if name not in bounds]
    for bound in (0.0, 1.0):
        names = [name for name in bounds if cells.values[name][0] == bound]
        if names:
            yield (
                f"all runs of {listed(names, _NAMED)} are at {bound:g}: if that is a bound of the metric, "
                "differences beyond it cannot be seen, and tests with them are rough"
            )
    if others:
        yield (
            f"all seeds of {listed(others, _NAMED)} gave exactly the same number: is the seed used at all? "
            "Where no point has any scatter, nothing is tested"
        )


def _on_tasks(results: Sequence[RunResult], metric: str, yardstick: Yardstick) -> Iterator[str]:
    counting = [result for result in results if result.value is not None]
    with_tasks = [result for result in counting if result.tasks]
    if yardstick.differing_tasks and yardstick.shared_tasks:
        yield (
            "the runs were not validated on the same tasks: values are taken over the "
            f"{_count(yardstick.shared_tasks, 'task')} that all of them have, so they differ from the runs' "
            "own reports"
        )
    elif yardstick.differing_tasks:
        yield "the runs were validated on different tasks, with none in common: differences may be the tasks'"
    if metrics.measure_of(metric) and 0 < len(with_tasks) < len(counting):
        yield "some runs have no per-task results, so whether all had the same validation tasks is not known"


def _on_interactions(pairs: Sequence[Interaction]) -> Iterator[str]:
    for pair in pairs:
        one, other = pair.keys
        p = f"adjusted p = {pair.p_adjusted:.2g}"
        if pair.matters:
            yield (
                f"what {one} does depends on {other} (interaction, {p}): their differences are averages over "
                "unlike effects"
            )
        else:
            yield f"no interaction of {one} and {other} was detected ({p})"


def _on_tests(cells: Cells, contrasts: Sequence[Contrast], pairs: Sequence[Interaction]) -> Iterator[str]:
    tested = [contrast for contrast in contrasts if contrast.p is not None]
    if not tested:
        return
    yield from (f"differences: {method}" for method in dict.fromkeys(one.method for one in tested))
    together = f" and {_count(len(pairs), 'interaction')}" if pairs else ""
    count = f"{_count(len(tested), 'comparison')}{together}"
    yield f"p values are adjusted by Holm's method for {count}, as one family"
    apart = [c for c in tested if c.finding == "no detectable difference" and c.p is not None and c.p < 0.05]
    if apart:
        names = listed([f"{contrast.key} {contrast.level}" for contrast in apart], _NAMED)
        yield (
            f"{names}: the 95 % interval, which is for one comparison alone, leaves out 0, but with "
            f"{count} that is not enough for a finding"
        )
    yield (
        "detectable difference and seeds needed: 80 % power for one comparison alone at 5 %, with the "
        f"scatter observed here, which few seeds know only roughly{_for_several(tested, len(pairs))}"
    )
    seeds = [{r.run.seed for r in runs if r.run.seed is not None} for runs in cells.runs.values()]
    if len(seeds) > 1 and len(seeds[0]) > 1 and all(one == seeds[0] for one in seeds):
        yield (
            "all points have the same seeds; runs with the same seed are not compared one with one: with "
            "other settings they part after the first steps; were they alike, the test would only be too "
            "careful"
        )


def _on_measuring(
    study: Study, results: Sequence[RunResult], metric: str, yardstick: Yardstick
) -> Iterator[str]:
    if metric:
        yield f"{metric}: {_value_of_a_run(metric)}"
    yield "intervals of means: 95 % t intervals over seeds"
    if any(result.area is not None for result in results) and yardstick.span:
        first, last = yardstick.span
        yield f"area: mean height of the curve between step {first} and {last}, which all curves span"
    elif any(result.value is not None for result in results):
        yield "no areas: the curves share no range of steps"
    if yardstick.threshold is not None:
        whose = " (the mean value of the baseline)" if yardstick.is_default_threshold else ""
        yield (
            f"threshold: {yardstick.threshold:.4g}{whose}; steps to it are means over the runs that reached "
            "it, at their first measurement at or past it"
        )
    if any(result.curve.seconds for result in results):
        yield f"seconds are sums of {metrics.STEP_TIME}: without start-up and validations"
    if any(result.hours is not None for result in results):
        yield (
            f"cost: wall hours of all attempts of a run × {_count(study.cost_units, study.cost_unit)}; per "
            f"{metrics.cost_per(metric):g} of improvement from the first measurement to the end"
        )
    yield (
        "the point with the best mean is picked afterwards, so its mean flatters; a finding needs a tested "
        "difference"
    )


def _for_several(tested: Sequence[Contrast], pairs: int) -> str:
    """How much more the first step of Holm's method asks for."""
    if len(tested) + pairs == 1:
        return ""
    strict = stats.ALPHA / (len(tested) + pairs)
    known = {contrast.degrees for contrast in tested if contrast.degrees is not None}
    most = max(stats.needed_ratio(one, strict) / stats.needed_ratio(one) for one in known)
    return f"; as one of {len(tested) + pairs} tests a difference must be up to {most:.1f} times as large"


def _value_of_a_run(metric: str) -> str:
    if metric.startswith("val/"):
        return "the value of a run is that of its last validation, never of its best one"
    return (
        f"the value of a run is the mean of its last {RECENT} rows; where the metric is measured only now "
        "and then, its last value"
    )


def _count(number: float, what: str) -> str:
    return f"{number:g} {what}" + ("" if number == 1 else "s")
