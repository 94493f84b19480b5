"""Every number of the report as a `Fact`: recipe and sources, and the value that the recipe gives.

In: the `Record`. Out: facts by id, in the order of the report. Ids: `key/…` (headline figures),
`evaluation/KEY`, `attempt/N/…`, `val/STEP/COLUMN`, `metric/KEY/…`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import nan
from typing import TypeVar

import numpy as np

from harness.blueprint.types import Blueprint, MetricSpec
from harness.journal.events import Approved, Denied, PersonAnswered
from harness.results.leading import PASS_RATE, Leading
from harness.results.raw import json_lines, number_in
from harness.results.result import course_facts, leading_of, result_facts
from harness.results.sources import computed
from harness.results.types import (
    LOG_CUT,
    ONE_SEED,
    AttemptRecord,
    Discrepancy,
    Evaluation,
    Fact,
    Recipe,
    Record,
    Series,
    Source,
    Unit,
)
from harness.state import NOT_PLANNED
from monitors.metrics.axis import AXIS_WORDS, whole
from monitors.metrics.names import direction

ANSWERS = (Approved.kind, Denied.kind, PersonAnswered.kind)  # with how long they were waited for
RECENT = 10  # rows at the end of a run that the throughput is the median of
MAX_METRICS = 60  # metrics in the report's table
MAX_EVALUATIONS = 400  # validations with a fact for each number
REWARD_KEYS = ("critic/rewards/mean", "critic/score/mean", "reward", "rewards", "train/reward", "mean_reward")
KL_KEYS = ("actor/kl_loss", "kl_loss", "actor/ppo_kl", "kl", "train/kl", "objective/kl")
THROUGHPUT_KEYS = ("perf/throughput", "throughput", "tokens_per_second", "train/tokens_per_second")
MAX_FOREIGN = 3  # metrics we have no name for among the key figures
OWN_FAMILIES = (
    *("actor/", "critic/", "response_length/", "response/", "prompt_length/", "timing_s/"),
    *("timing_per_token_ms/", "perf/", "val/", "global_seqlen/", "training/", "tokens/"),
)
_OF_ANY = ("timing_s/", "timing_per_token_ms/", "perf/")
_RATE_COLUMNS = ("task_pass_rate", "unbiased_pass")
_COUNTS: Mapping[str, tuple[Recipe, str]] = {
    "pass_n": ("task_min", "episodes"),
    "total_tasks": ("task_sum", "tasks"),
    "num_all_success_tasks": ("task_sum", "all"),
    "num_pass_n_tasks": ("task_sum", "any"),
}
_REPORTED_TOLERANCE = 1e-3  # a Markdown table rounds
_OVER_ALL_ROWS = re.compile(r"key/steps|key/.*_best|metric/.*/(?:lowest|highest)", re.DOTALL)
_OF_LAST_ROW = re.compile(
    r"key/throughput|key/.*(?:_end|_last|_change|/last)|metric/.*/last|attempt/\d+/(?:rows|last_step)",
    re.DOTALL,
)
Item = TypeVar("Item")


def build_facts(record: Record, plan: Blueprint = NOT_PLANNED) -> dict[str, Fact]:
    """All facts of an experiment, by id; withheld are those that are not where they should stand. `plan`:
    which metric leads, and how metric lines look."""
    patterns = (plan.metrics or MetricSpec(())).of_lines()
    leading = leading_of(record, plan)
    led = leading.name if leading is not None else ""
    own = (*_attempts(record.attempts), *_validations(record), *_metrics(record, led))
    planned = (*_evaluated(record), *own, *_key_facts(record, leading))
    facts = {fact.id: fact for fact in computed(record.result_dir, planned, patterns, record.tables)}
    clock_was_set_back = {name for name, fact in facts.items() if fact.recipe == "elapsed" and fact.value < 0}
    return {
        name: replace(fact, value=nan, interval=None, note=LOG_CUT, withheld=LOG_CUT)
        if _is_cut(record, fact)
        else fact
        for name, fact in facts.items()
        if name not in clock_was_set_back
    }


def _is_cut(record: Record, fact: Fact) -> bool:
    """True if the number needs rows that may be lost with a log."""
    if _OVER_ALL_ROWS.fullmatch(fact.id):
        return any(attempt.is_cut for attempt in record.attempts)
    return bool(_OF_LAST_ROW.fullmatch(fact.id)) and record.may_go_on(fact.sources)


def differences(record: Record, facts: Mapping[str, Fact]) -> Iterator[Discrepancy]:
    """Numbers that are not where they should stand; and where the trainer's own summary of a validation
    disagrees with its per-task results."""
    for fact in facts.values():
        if fact.withheld not in ("", LOG_CUT):
            yield Discrepancy(fact.label, fact.withheld)
    for evaluation in record.evaluations:
        for column, reported in evaluation.reported.items():
            own = facts.get(evaluation_id(evaluation, column))
            if not evaluation.tasks or own is None or own.withheld or column == "std_reward":
                continue
            if not abs(own.value - reported.value) <= _REPORTED_TOLERANCE:
                told = f"the trainer reported {reported.value:g} ({reported.source})"
                yield Discrepancy(own.label, f"{told}, its per-task results ({own.place}) give {own.value:g}")


def first_of(record: Record, keys: Iterable[str]) -> Series | None:
    """The series of the first of these metrics that the run has."""
    return next((record.series[key] for key in keys if key in record.series), None)


def foreign_metrics(record: Record) -> list[Series]:
    """Metrics outside the families that verl and the bundled trainer write."""
    own = OWN_FAMILIES if is_reinforcement(record) else _OF_ANY
    return [series for key, series in record.series.items() if not key.startswith(own)]


def listed_metrics(record: Record, led: str) -> list[Series]:
    """The metrics of the report's table, the leading one first. The validations of a training by rewards have
    a table of their own."""
    of_validations = "val/" if is_reinforcement(record) else PASS_RATE
    shown = [one for key, one in record.series.items() if key == led or not key.startswith(of_validations)]
    return sorted(shown, key=lambda series: series.key != led)


def is_reinforcement(record: Record) -> bool:
    """True if the run trained by rewards: it has a metric that only such a training has."""
    by_reward = first_of(record, (*REWARD_KEYS, *KL_KEYS)) is not None
    return by_reward or any(key.startswith(("actor/", "critic/", "val/task_")) for key in record.series)


# --- attempts, validations, metrics -------------------------------------------------------------------------


def _attempts(attempts: Iterable[AttemptRecord]) -> Iterator[Fact]:
    for attempt in attempts:
        name, label = f"attempt/{attempt.number}", f"attempt {attempt.number}"
        ended, exit_file = attempt.exit or {}, f"{attempt.folder}/exit.json"
        for key in ("status", "signal", "prepare_status", "evaluate_status", "cleanup_status"):
            if number_in(ended, key) is not None:
                source = Source(exit_file, key=key)
                yield Fact(f"{name}/{key}", f"{label}: {key.replace('_', ' ')}", "number", "value", (source,))
        times = tuple(Source(exit_file, key=key) for key in ("ended_at", "started_at"))
        if all(number_in(ended, time.key or "") is not None for time in times):
            yield Fact(f"{name}/duration", f"{label}: duration", "seconds", "elapsed", times)
        if attempt.span is not None:
            rows = (Source(f"{attempt.folder}/metrics.jsonl"),)
            yield Fact(f"{name}/rows", f"{label}: metric rows", "count", "row_count", rows)
            for which, end in zip(("first", "last"), attempt.span, strict=True):
                about = (f"{name}/{which}_step", f"{label}: {which} {AXIS_WORDS[attempt.axis]}")
                yield Fact(
                    *about, "number" if attempt.axis == "epoch" else "count", end.recipe, (end.source,)
                )


def _evaluated(record: Record) -> Iterator[Fact]:
    for key, series in list(record.evaluated.items())[:MAX_METRICS]:
        yield _value(f"evaluation/{key}", f"{key}, evaluated after the training", series, -1, "")


def evaluation_id(evaluation: Evaluation, column: str) -> str:
    """How the fact of one number of a validation is called."""
    return f"val/{whole(evaluation.position)}/{column}"


def _validations(record: Record) -> Iterator[Fact]:
    """From per-task results where there are any, else what the trainer reported."""
    for evaluation in evenly(record.evaluations, MAX_EVALUATIONS):
        at, source = record.at(evaluation.position), evaluation.source
        if evaluation.tasks and source is not None:
            for column, unit, recipe, measure in _columns(min(len(x.successes) for x in evaluation.tasks)):
                about = (evaluation_id(evaluation, column), f"{column} at {at}")
                yield Fact(*about, unit, recipe, (source,), measure)
            continue
        for column, reported in evaluation.reported.items():
            is_rate = column.startswith(_RATE_COLUMNS)
            unit = "rate" if is_rate else "count" if column in _COUNTS else "number"
            about = (evaluation_id(evaluation, column), f"{column} at {at}")
            note = "no per-task results, so no interval" if is_rate else ""
            yield Fact(*about, unit, "value", (reported.source,), note=note)


def evenly(items: tuple[Item, ...], most: int) -> tuple[Item, ...]:
    """About so many of the items, evenly spaced, first and last among them."""
    thinned = items[:: len(items) // most + 1]
    return thinned if thinned[-1:] == items[-1:] else (*thinned, items[-1])


def _columns(tries: int) -> Iterator[tuple[str, Unit, Recipe, str]]:
    """Column, unit, recipe and measure of what is computed when every task has so many episodes."""
    for column, (recipe, measure) in _COUNTS.items():
        yield column, "count", recipe, measure
    ks = [k for k in (2, 4, 8, 16, 32, 64) if k <= tries]
    yield "task_pass_rate@1", "rate", "task_mean", "pass"
    for k in ks:
        yield f"task_pass_rate@{k}", "rate", "task_mean", f"first@{k}"
    yield "mean_reward", "number", "task_mean", "reward"
    yield "std_reward", "number", "episode_std", ""
    for k in ks:
        yield f"unbiased_pass@{k}", "rate", "task_mean", f"unbiased@{k}"


def _metrics(record: Record, led: str) -> Iterator[Fact]:
    for series in listed_metrics(record, led)[:MAX_METRICS]:
        places = {"first": 0, "last": len(series.values) - 1}
        finite = np.isfinite(series.values)
        if finite.any():
            places["lowest"] = int(np.where(finite, series.values, np.inf).argmin())
            places["highest"] = int(np.where(finite, series.values, -np.inf).argmax())
        if not finite.all():
            places["first_not_finite"] = int((~finite).argmax())
        for place, index in places.items():
            label = f"{series.key}, {place.replace('_', ' ')}"
            note = record.at(float(series.positions[index]))
            yield _value(f"metric/{series.key}/{place}", label, series, index, note)


def _value(name: str, label: str, series: Series, index: int, note: str) -> Fact:
    return Fact(name, label, "number", "value", (series.source(index),), note=note)


# --- headline ----------------------------------------------------------------------------------------------


def _key_facts(record: Record, leading: Leading | None) -> Iterator[Fact]:
    """The result first, then what else stands for the run."""
    led = leading.name if leading is not None else ""
    if leading is not None and (record.evaluated or led != PASS_RATE):
        yield from result_facts(record, leading)
    led = "" if record.evaluated else led  # what the training measured is told, too
    yield from _pass_rate(record, leading)
    reward, kl = (first_of(record, keys) for keys in (REWARD_KEYS, KL_KEYS))
    if reward is not None and reward.key != led:
        yield _at_end("key/reward_first", "training reward, first row", record, reward, 0)
        yield _at_end("key/reward_last", "training reward, last row", record, reward, -1)
    if kl is not None and kl.key != led:
        yield _at_end("key/kl_last", f"KL ({kl.key}), last row", record, kl, -1)
    if (throughput := first_of(record, THROUGHPUT_KEYS)) is not None:
        yield _throughput(throughput)
    for series in _others(record, led):
        yield _at_end(f"key/{series.key}/first", f"{series.key}, first", record, series, 0)
        yield _at_end(f"key/{series.key}/last", f"{series.key}, last", record, series, -1)
    yield from _extent(record)
    ended = [one.folder for one in record.attempts if number_in(one.exit or {}, "ended_at") is not None]
    if ended and (record.result_dir / "journal.jsonl").is_file():
        ends = (Source(f"{ended[-1]}/exit.json", key="ended_at"), Source("journal.jsonl", 1, key="time"))
        label = "wall time, first decision to the end of training"
        yield Fact("key/wall_time", label, "seconds", "elapsed", (*ends, *_waits(record)))


def _waits(record: Record) -> Iterator[Source]:
    """How long nothing ran because a person was asked, while the training was still to come."""
    last = max((number_in(one.exit or {}, "ended_at") or 0.0 for one in record.attempts), default=0.0)
    for row in json_lines(record.result_dir / "journal.jsonl", "journal.jsonl", []):
        if row.data.get("kind") in ANSWERS and (number_in(row.data, "time") or last) < last:
            yield Source("journal.jsonl", row.line, key="waited_s")


def _others(record: Record, led: str) -> list[Series]:
    """Metrics that we have no place for and that change, those that say what they measure first."""
    named = (led, *REWARD_KEYS, *KL_KEYS, *THROUGHPUT_KEYS)
    unnamed = (series for series in foreign_metrics(record) if series.key not in named)
    changing = [series for series in unnamed if len(np.unique(series.values)) > 1]
    return sorted(changing, key=lambda series: direction(series.key) is None)[:MAX_FOREIGN]


def _extent(record: Record) -> Iterator[Fact]:
    """How far the training went: counted steps or epochs where none is left out, else rows and the last of
    them."""
    placed = [one for one in record.attempts if one.span and one.axis == record.axis]
    if not placed:
        return
    sources = tuple(Source(f"{one.folder}/metrics.jsonl") for one in placed)
    trained = record.trained
    without_gaps = bool(trained) and bool((np.diff(trained) == 1).all())
    if record.axis != "row" and without_gaps:
        yield Fact("key/steps", f"{record.axis}s", "count", "position_count", sources)
        return
    last = max(one.span[1].value for one in placed if one.span)
    note = f"up to {record.at(last)}" if record.axis != "row" else ""
    yield Fact("key/steps", "metric rows", "count", "row_count", sources, note=note)


def _pass_rate(record: Record, leading: Leading | None) -> Iterator[Fact]:
    """The pass rate of the validations, and its change over the tasks in the first and the last of them."""
    led = leading if leading is not None and leading.name == PASS_RATE else Leading(PASS_RATE, "max")
    yield from course_facts(record, led)
    rated = [one for one in record.evaluations if one.tasks]
    if len(rated) < 2:
        return
    first, last = rated[0], rated[-1]
    both = {task.task_id for task in first.tasks} & {task.task_id for task in last.tasks}
    if both and first.source and last.source:
        ends = f"{record.at(first.position)} → {whole(last.position)}"
        yield Fact(
            "key/pass_rate_change",
            f"change of the task pass rate, {ends}",
            "difference",
            "paired_difference",
            (first.source, last.source),
            "pass",
            f"paired over the {len(both)} tasks in both validations; {ONE_SEED}",
        )


def _at_end(name: str, label: str, record: Record, series: Series, index: int) -> Fact:
    return _value(name, label, series, index, f"{series.key} at {record.at(float(series.positions[index]))}")


def _throughput(series: Series) -> Fact:
    n = min(RECENT, len(series.values))
    sources = tuple(series.source(index) for index in range(-n, 0))
    label = f"throughput (tokens per second), median of the last {n} rows"
    return Fact("key/throughput", label, "number", "median", sources, note=series.key)
