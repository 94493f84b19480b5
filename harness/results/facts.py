"""Every number of the report as a `Fact`: recipe and sources, and the value that the recipe gives.

In: the `Record`. Out: facts by id, in the order of the report. Ids: `key/…` (headline figures),
`attempt/N/…`, `val/STEP/COLUMN`, `metric/KEY/…`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from harness.results.raw import number_in
from harness.results.sources import computed
from harness.results.types import (
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

RECENT = 10  # rows at the end of a run that "mean over the last rows" looks at
MAX_METRICS = 60  # metrics in the report's table
ONE_SEED = "one seed: says nothing about other seeds"
REWARD_KEYS = ("critic/rewards/mean", "critic/score/mean", "reward", "rewards", "train/reward", "mean_reward")
KL_KEYS = ("actor/kl_loss", "kl_loss", "actor/ppo_kl", "kl", "train/kl", "objective/kl")
THROUGHPUT_KEYS = ("perf/throughput", "throughput", "tokens_per_second", "train/tokens_per_second")
MAX_FOREIGN = 3  # metrics we have no name for among the key figures
OWN_FAMILIES = (
    *("actor/", "critic/", "response_length/", "response/", "prompt_length/", "timing_s/"),
    *("timing_per_token_ms/", "perf/", "val/", "global_seqlen/", "training/", "tokens/"),
)
_RATE_COLUMNS = ("task_pass_rate", "unbiased_pass")
_COUNTS: Mapping[str, tuple[Recipe, str]] = {
    "pass_n": ("task_min", "episodes"),
    "total_tasks": ("task_sum", "tasks"),
    "num_all_success_tasks": ("task_sum", "all"),
    "num_pass_n_tasks": ("task_sum", "any"),
}
_REPORTED_TOLERANCE = 1e-3  # a Markdown table rounds


def build_facts(record: Record) -> dict[str, Fact]:
    """All facts of an experiment, by id; withheld are those that are not where they should stand."""
    planned = [*_attempts(record.attempts), *_validations(record.evaluations), *_metrics(record)]
    facts = {fact.id: fact for fact in computed(record.result_dir, planned)}
    facts |= {fact.id: fact for fact in computed(record.result_dir, _key_facts(record, facts))}
    clock_was_set_back = {name for name, fact in facts.items() if fact.recipe == "elapsed" and fact.value < 0}
    return {name: fact for name, fact in facts.items() if name not in clock_was_set_back}


def reported_differences(record: Record, facts: Mapping[str, Fact]) -> Iterator[Discrepancy]:
    """Where the trainer's own summary of a validation disagrees with its per-task results."""
    for evaluation in record.evaluations:
        for column, reported in evaluation.reported.items():
            fact = facts.get(f"val/{evaluation.step}/{column}")
            if not evaluation.tasks or fact is None or fact.withheld or column == "std_reward":
                continue
            if not abs(fact.value - reported.value) <= _REPORTED_TOLERANCE:
                told = f"the trainer reported {reported.value:g} ({reported.source})"
                yield Discrepancy(
                    fact.label, f"{told}, its per-task results ({fact.place}) give {fact.value:g}"
                )


def first_of(record: Record, keys: Iterable[str]) -> Series | None:
    """The series of the first of these metrics that the run has."""
    return next((record.series[key] for key in keys if key in record.series), None)


def foreign_metrics(record: Record) -> list[Series]:
    """Metrics outside the families that verl and the bundled trainer write."""
    return [series for key, series in record.series.items() if not key.startswith(OWN_FAMILIES)]


# --- attempts, validations, metrics -------------------------------------------------------------------------


def _attempts(attempts: Iterable[AttemptRecord]) -> Iterator[Fact]:
    for attempt in attempts:
        name, label = f"attempt/{attempt.number}", f"attempt {attempt.number}"
        ended, exit_file = attempt.exit or {}, f"{attempt.folder}/exit.json"
        for key in ("status", "signal", "prepare_status", "cleanup_status"):
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
                about = (f"{name}/{which}_step", f"{label}: {which} step")
                yield Fact(*about, "count", "value", (end.source,))


def _validations(evaluations: Iterable[Evaluation]) -> Iterator[Fact]:
    """From per-task results where there are any, else what the trainer reported."""
    for evaluation in evaluations:
        step, source = evaluation.step, evaluation.source
        if evaluation.tasks and source is not None:
            for column, unit, recipe, measure in _columns(min(len(x.successes) for x in evaluation.tasks)):
                about = (f"val/{step}/{column}", f"{column} at step {step}")
                yield Fact(*about, unit, recipe, (source,), measure)
            continue
        for column, reported in evaluation.reported.items():
            unit = "rate" if column.startswith(_RATE_COLUMNS) else "count" if column in _COUNTS else "number"
            about = (f"val/{step}/{column}", f"{column} at step {step}")
            note = "no per-task results, so no interval"
            yield Fact(*about, unit, "value", (reported.source,), note=note)


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


def _metrics(record: Record) -> Iterator[Fact]:
    shown = [series for key, series in record.series.items() if not key.startswith("val/")][:MAX_METRICS]
    for series in shown:
        places = {"first": 0, "last": len(series.values) - 1}
        finite = np.isfinite(series.values)
        if finite.any():
            places["lowest"] = int(np.where(finite, series.values, np.inf).argmin())
            places["highest"] = int(np.where(finite, series.values, -np.inf).argmax())
        if not finite.all():
            places["first_not_finite"] = int((~finite).argmax())
        for place, index in places.items():
            label, note = f"{series.key}, {place.replace('_', ' ')}", f"step {int(series.steps[index])}"
            yield _value(f"metric/{series.key}/{place}", label, series, index, note)


def _value(name: str, label: str, series: Series, index: int, note: str = "") -> Fact:
    note = note or f"{series.key} at step {int(series.steps[index])}"
    return Fact(name, label, "number", "value", (series.source(index),), note=note)


# --- headline ----------------------------------------------------------------------------------------------


def _key_facts(record: Record, facts: Mapping[str, Fact]) -> Iterator[Fact]:
    yield from _validation_change(record, facts)
    if (reward := first_of(record, REWARD_KEYS)) is not None:
        yield _value("key/reward_first", "training reward, first row", reward, 0)
        yield _recent("key/reward_recent", "training reward", reward, "mean")
    if (kl := first_of(record, KL_KEYS)) is not None:
        yield _value("key/kl_last", f"KL ({kl.key}), last row", kl, -1)
    if (throughput := first_of(record, THROUGHPUT_KEYS)) is not None:
        yield _recent("key/throughput", "throughput (tokens per second)", throughput, "median")
    named = (*REWARD_KEYS, *KL_KEYS, *THROUGHPUT_KEYS)
    unnamed = (series for series in foreign_metrics(record) if series.key not in named)
    changing = [series for series in unnamed if len(np.unique(series.values)) > 1]
    for series in changing[:MAX_FOREIGN]:
        yield _value(f"key/{series.key}/first", f"{series.key}, first", series, 0)
        yield _value(f"key/{series.key}/last", f"{series.key}, last", series, -1)
    if ends := [attempt.span[1] for attempt in record.attempts if attempt.span]:
        yield Fact("key/steps", "last step", "count", "value", (ends[-1].source,))
    ended = [one.folder for one in record.attempts if number_in(one.exit or {}, "ended_at") is not None]
    if ended and (record.result_dir / "journal.jsonl").is_file():
        sources = (Source(f"{ended[-1]}/exit.json", key="ended_at"), Source("journal.jsonl", 1, key="time"))
        label = "wall time, first decision to the end of training"
        yield Fact("key/wall_time", label, "seconds", "elapsed", sources)


def _validation_change(record: Record, facts: Mapping[str, Fact]) -> Iterator[Fact]:
    rates = (
        (evaluation, facts.get(f"val/{evaluation.step}/task_pass_rate@1"))
        for evaluation in record.evaluations
    )
    rated = [(evaluation, rate) for evaluation, rate in rates if rate is not None]
    if not rated:
        return
    (first, start), (last, end) = rated[0], rated[-1]
    if first.step != last.step:
        yield _renamed(start, "start", f"task pass rate, first validation (step {first.step})")
    yield _renamed(end, "end", f"task pass rate, last validation (step {last.step})")
    both = {task.task_id for task in first.tasks} & {task.task_id for task in last.tasks}
    if first.step != last.step and both and first.source and last.source:
        yield Fact(
            "key/pass_rate_change",
            f"change of the task pass rate, step {first.step} → {last.step}",
            "difference",
            "paired_difference",
            (first.source, last.source),
            "pass",
            f"paired over the {len(both)} tasks in both validations; {ONE_SEED}",
        )
    evaluation, best = max(rated, key=lambda item: item[1].value)
    if best.value > end.value:
        label = f"highest task pass rate of {len(rated)} validations (step {evaluation.step})"
        yield _renamed(replace(best, note="picked afterwards, so it flatters"), "best", label)


def _renamed(fact: Fact, name: str, label: str) -> Fact:
    note = f"{fact.note}; {ONE_SEED}" if fact.note else ONE_SEED
    return replace(fact, id=f"key/pass_rate_{name}", label=label, note=note)


def _recent(name: str, label: str, series: Series, recipe: Recipe) -> Fact:
    n = min(RECENT, len(series.values))
    sources = tuple(series.source(index) for index in range(-n, 0))
    text = f"{label}, {recipe} of the last {n} rows"
    return Fact(name, text, "number", recipe, sources, note=series.key)
