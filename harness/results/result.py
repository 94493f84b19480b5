"""What a run came to: the one definition that reports, lists, sweeps and comparisons show.

The result is the last value of the leading metric: of the evaluation after the training where the plan asks
for one, else of the last validation where it is validated, else of the last row. The best is named beside it
as picked afterwards. No mean over rows, no smoothing.

In: a `Record` and the plan. Out: the `Point`s of a metric, the facts of the result, `Result`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.blueprint.types import Blueprint
from harness.results.leading import CHOSEN, PASS_RATE, Leading, best_of, leading_metric
from harness.results.task_statistics import measure_of, of_tasks
from harness.results.types import ONE_SEED, Evaluation, Fact, Recipe, Record, Series, Source, Unit
from monitors.metrics import names
from monitors.metrics.names import Direction

RATES = ("task_pass_rate@", "unbiased_pass@")


@dataclass(frozen=True)
class Point:
    """One measurement of a metric: where, its value, and how it is computed from which sources."""

    position: float
    value: float
    attempt: int
    sources: tuple[Source, ...]
    recipe: Recipe = "value"
    measure: str = ""


@dataclass(frozen=True)
class Points:
    """The measurements of a metric in order. `at` makes the one at an index (from the end if negative)."""

    positions: Sequence[float]
    values: Sequence[float]
    at: Callable[[int], Point]

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class Result:
    """What a run came to. `start`: None where there is one measurement; `best`: None where it is the last, or
    where no direction is known; `at`: where the last measurement stands, in words."""

    metric: str
    goal: Direction | None
    note: str
    at: str
    end: Fact
    start: Fact | None
    best: Fact | None

    def as_json(self) -> dict[str, Any]:
        """As result.json, the journal and finish.flag keep it; a number that is none is null with a text."""
        about = {"metric": self.metric, "goal": self.goal, "at": self.at, "note": self.note}
        others = {name: fact and _shown(fact) for name, fact in (("start", self.start), ("best", self.best))}
        return {**about, **_shown(self.end), **others}


def _shown(fact: Fact) -> dict[str, Any]:
    value = None if fact.withheld or not math.isfinite(fact.value) else fact.value
    return {"value": value, "text": fact.text, "fact": fact.id}


def metric_names(record: Record) -> list[str]:
    """The metrics of a run, the evaluation's first, then validations: a column of these is `val/COLUMN`."""
    found = list(record.evaluated)
    for evaluation in record.evaluations:
        of_tasks = ("task_pass_rate@1", "mean_reward") if evaluation.tasks else ()
        columns = (*of_tasks, *evaluation.reported)
        found += [name_of(record, column) for column in columns]
    return list(dict.fromkeys([*found, *record.series]))


def name_of(record: Record, column: str) -> str:
    """The metric that a column of the validations is."""
    has_own_name = f"val/{column}" not in record.series and column in record.series
    return column if has_own_name else f"val/{column}"


def leading_of(record: Record, plan: Blueprint) -> Leading | None:
    """The leading metric of a run whose raw files were read."""
    found = leading_metric(plan, measured_names(record))
    meant = names.named(metric_names(record), plan.purpose) if record.evaluated else None
    if found is None or meant is None:
        return found
    lacks = f"the evaluation has no {meant}, which the purpose names"
    return replace(found, why=found.why.replace(CHOSEN, lacks))


def measured_names(record: Record) -> list[str]:
    """The metrics that may lead a run: those of its evaluation, where there was one."""
    return list(record.evaluated) or metric_names(record)


def end_of(record: Record, metric: str) -> Point | None:
    """The measurement of a metric that counts: by the evaluation, else the last of the training."""
    evaluated = record.evaluated.get(metric)
    points = points_of(record, metric) if evaluated is None else _points_in(evaluated)
    return points.at(-1) if points else None


def points_of(record: Record, metric: str) -> Points:
    """Every measurement of a metric in the training, in order; of `val/…` one per validation, from its tasks
    where they were written, else as the trainer reported it."""
    series = record.series.get(metric)
    if series is None or metric.startswith("val/"):
        found = list(_validated(record.evaluations, metric)) if metric.startswith("val/") else []
        return Points([one.position for one in found], [one.value for one in found], found.__getitem__)
    return _points_in(series)


def _points_in(series: Series) -> Points:
    positions, values = series.positions.tolist(), series.values.tolist()

    def made(index: int) -> Point:
        at = (positions[index], values[index], int(series.attempts[index]))
        return Point(*at, (series.source(index),))

    return Points(positions, values, made)


def _validated(evaluations: Iterable[Evaluation], metric: str) -> Iterator[Point]:
    for one in evaluations:
        value, reported = of_tasks(one.tasks, metric), one.reported.get(metric.removeprefix("val/"))
        if value is not None and one.source is not None:
            where = (one.position, value, one.attempt, (one.source,))
            yield Point(*where, "task_mean", measure_of(metric))
        elif reported is not None:
            yield Point(one.position, reported.value, one.attempt, (reported.source,))


# --- as facts -----------------------------------------------------------------------------------------------


def result_facts(record: Record, leading: Leading) -> Iterator[Fact]:
    """The facts of the result, not yet computed: what the evaluation measured, else `course_facts`."""
    end = end_of(record, leading.name) if record.evaluated else None
    if end is None:
        yield from course_facts(record, leading)
        return
    note = "; ".join(filter(None, ("measured by [exp_evaluate_command]", leading.note, ONE_SEED)))
    yield _fact("key/result_end", f"{leading.name}, evaluated after the training", end, leading.name, note)


def course_facts(record: Record, leading: Leading) -> Iterator[Fact]:
    """First, last and best measurement of a metric in the training."""
    points = points_of(record, leading.name)
    if not points:
        return
    what = "task pass rate" if leading.name == PASS_RATE else leading.name
    of_validations = leading.name.startswith("val/")
    kind = " validation" if of_validations else ""
    stem = _stem(leading.name)
    if len(points) > 1:
        label = f"{what}, first{kind} ({record.at(points.positions[0])})"
        yield _fact(f"{stem}_start", label, points.at(0), leading.name, ONE_SEED)
    label = f"{what}, last{kind} ({record.at(points.positions[-1])})"
    note = f"{leading.note}; {ONE_SEED}" if leading.note else ONE_SEED
    yield _fact(f"{stem}_end", label, points.at(-1), leading.name, note)
    best = best_of(points.values, leading.goal)
    if best is not None and points.values[best] != points.values[-1]:
        word = "highest" if leading.goal == "max" else "lowest"
        count = f"{len(points)} {'validations' if of_validations else 'values'}"
        label = f"{word} {what} of {count} ({record.at(points.positions[best])})"
        note = f"picked afterwards, so it flatters; {ONE_SEED}"
        yield _fact(f"{stem}_best", label, points.at(best), leading.name, note)


def _fact(name: str, label: str, point: Point, metric: str, note: str) -> Fact:
    is_rate = metric.removeprefix("val/").startswith(RATES)
    unit: Unit = "rate" if is_rate else "number"
    return Fact(name, label, unit, point.recipe, point.sources, point.measure, note)


def _stem(metric: str) -> str:
    return "key/pass_rate" if metric == PASS_RATE else "key/result"


def result_of(record: Record, facts: Mapping[str, Fact], leading: Leading | None) -> Result | None:
    """The result of a run from its computed facts; None where no metric leads."""
    last = end_of(record, leading.name) if leading else None
    if leading is None or last is None:
        return None
    stem = "key/result" if record.evaluated else _stem(leading.name)
    end, start, best = (facts.get(f"{stem}_{which}") for which in ("end", "start", "best"))
    if end is None:
        return None
    at = f"evaluated after attempt {last.attempt}" if record.evaluated else record.at(last.position)
    about = (leading.name, leading.goal, leading.note, at)
    return Result(*about, end, start, best if best is None or not best.withheld else None)
