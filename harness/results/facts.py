"""Every number of the report as a `Fact`: value, recipe, sources.

In: the `Record`. Out: facts by id, in the order of the report. Ids: `key/…` (headline
figures), `attempt/N/…`, `val/STEP/COLUMN`, `metric/KEY/…`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from harness.results import task_statistics
from harness.results.raw import number_in, parse_object
from harness.results.types import (
    AttemptRecord,
    Evaluation,
    Fact,
    Recipe,
    Record,
    Series,
    Source,
)
from harness.results.validation_facts import evaluation_facts

RECENT = 10  # rows at the end of a run that "mean over the last rows" looks at
MAX_METRICS = 60  # metrics in the report's table
ONE_SEED = "one seed: says nothing about other seeds"
REWARD_KEYS = ("critic/rewards/mean", "critic/score/mean", "reward", "rewards", "train/reward", "mean_reward")
KL_KEYS = ("actor/kl_loss", "kl_loss", "actor/ppo_kl", "kl", "train/kl", "objective/kl")
THROUGHPUT_KEYS = ("perf/throughput", "throughput", "tokens_per_second", "train/tokens_per_second")
MAX_FOREIGN = 3  # metrics we have no name for among the key figures
OWN_FAMILIES = (
    "actor/",
    "critic/",
    "response_length/",
    "response/",
    "prompt_length/",
    "timing_s/",
    "timing_per_token_ms/",
    "perf/",
    "val/",
    "global_seqlen/",
    "training/",
    "tokens/",
)


def build_facts(record: Record) -> dict[str, Fact]:
    """All facts of an experiment, by id."""
    validation = {fact.id: fact for evaluation in record.evaluations for fact in evaluation_facts(evaluation)}
    facts = [
        *_attempt_facts(record),
        *validation.values(),
        *_metric_facts(record),
        *_key_facts(record, validation),
    ]
    return {fact.id: fact for fact in facts}


def first_of(record: Record, keys: Iterable[str]) -> Series | None:
    """The series of the first of these metrics that the run has."""
    return next((record.series[key] for key in keys if key in record.series), None)


def foreign_metrics(record: Record) -> list[Series]:
    """Metrics outside the families that verl and the bundled trainer write."""
    return [series for key, series in record.series.items() if not key.startswith(OWN_FAMILIES)]


# --- attempts ----------------------------------------------------------------------------------------------


def _attempt_facts(record: Record) -> Iterator[Fact]:
    for attempt in record.attempts:
        name = f"attempt/{attempt.number}"
        exit_file = f"{attempt.folder}/exit.json"
        exit_record = attempt.exit or {}
        for key in ("status", "signal", "prepare_status", "cleanup_status"):
            value = number_in(exit_record, key)
            if value is not None:
                label = f"attempt {attempt.number}: {key.replace('_', ' ')}"
                yield Fact(f"{name}/{key}", label, value, "number", "value", (Source(exit_file, key=key),))
        started, ended = number_in(exit_record, "started_at"), number_in(exit_record, "ended_at")
        if started is not None and ended is not None:
            sources = (Source(exit_file, key="ended_at"), Source(exit_file, key="started_at"))
            label = f"attempt {attempt.number}: duration"
            yield Fact(f"{name}/duration", label, ended - started, "seconds", "elapsed", sources)
        if attempt.span is not None:
            yield from _span_facts(attempt, name)


def _span_facts(attempt: AttemptRecord, name: str) -> Iterator[Fact]:
    assert attempt.span is not None
    rows = (Source(f"{attempt.folder}/metrics.jsonl"),)
    yield Fact(
        f"{name}/rows", f"attempt {attempt.number}: metric rows", attempt.rows, "count", "row_count", rows
    )
    for end, label in zip(attempt.span, ("first", "last"), strict=True):
        text = f"attempt {attempt.number}: {label} step"
        yield Fact(f"{name}/{label}_step", text, end.value, "count", "value", (end.source,))


# --- metrics -----------------------------------------------------------------------------------------------


def _metric_facts(record: Record) -> Iterator[Fact]:
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
            yield Fact(
                f"metric/{series.key}/{place}",
                f"{series.key}, {place.replace('_', ' ')}",
                float(series.values[index]),
                "number",
                "value",
                (series.source(index),),
                note=f"step {int(series.steps[index])}",
            )


# --- headline ----------------------------------------------------------------------------------------------


def _key_facts(record: Record, validation: Mapping[str, Fact]) -> Iterator[Fact]:
    yield from _validation_change(record, validation)
    reward = first_of(record, REWARD_KEYS)
    if reward is not None:
        yield _single("key/reward_first", "training reward, first row", reward, 0)
        yield _recent_mean("key/reward_recent", "training reward", reward)
    kl = first_of(record, KL_KEYS)
    if kl is not None:
        yield _single("key/kl_last", f"KL ({kl.key}), last row", kl, -1)
    throughput = first_of(record, THROUGHPUT_KEYS)
    if throughput is not None:
        yield _recent_mean("key/throughput", "throughput (tokens per second)", throughput, "median")
    yield from _foreign_ends(record)
    ends = [attempt.span[1] for attempt in record.attempts if attempt.span]
    if ends:
        last = ends[-1]
        yield Fact("key/steps", "last step", last.value, "count", "value", (last.source,))
    yield from _wall_time(record)


def _foreign_ends(record: Record) -> Iterator[Fact]:
    """First and last value of the first few metrics of somebody's own training that change at all."""
    named = (*REWARD_KEYS, *KL_KEYS, *THROUGHPUT_KEYS)
    changing = [
        series
        for series in foreign_metrics(record)
        if series.key not in named and len(np.unique(series.values)) > 1
    ]
    for series in changing[:MAX_FOREIGN]:
        yield _single(f"key/{series.key}/first", f"{series.key}, first", series, 0)
        yield _single(f"key/{series.key}/last", f"{series.key}, last", series, -1)


def _validation_change(record: Record, validation: Mapping[str, Fact]) -> Iterator[Fact]:
    rated = [
        (evaluation, fact)
        for evaluation in record.evaluations
        if (fact := validation.get(f"val/{evaluation.step}/task_pass_rate@1")) is not None
    ]
    if not rated:
        return
    (first, start), (last, end) = rated[0], rated[-1]
    if first.step != last.step:
        label = f"task pass rate, first validation (step {first.step})"
        yield _renamed(start, "key/pass_rate_start", label)
    yield _renamed(end, "key/pass_rate_end", f"task pass rate, last validation (step {last.step})")
    if first.step == last.step:
        return
    if first.tasks and last.tasks and first.source and last.source:
        values = task_statistics.paired(first.tasks, last.tasks, "pass")
        if len(values):
            yield Fact(
                "key/pass_rate_change",
                f"change of the task pass rate, step {first.step} → {last.step}",
                float(values.mean()),
                "difference",
                "paired_difference",
                (first.source, last.source),
                "pass",
                task_statistics.mean_interval(values, (-1.0, 1.0)),
                f"paired over the {len(values)} tasks in both validations; {ONE_SEED}",
            )
    yield from _best_validation(rated)


def _best_validation(rated: list[tuple[Evaluation, Fact]]) -> Iterator[Fact]:
    """The highest pass rate, when it is not the last one."""
    evaluation, best = max(rated, key=lambda item: item[1].value)
    if best.value > rated[-1][1].value:
        label = f"highest task pass rate of {len(rated)} validations (step {evaluation.step})"
        yield replace(
            best, id="key/pass_rate_best", label=label, note=f"picked afterwards, so it flatters; {ONE_SEED}"
        )


def _renamed(fact: Fact, name: str, label: str) -> Fact:
    note = f"{fact.note}; {ONE_SEED}" if fact.note else ONE_SEED
    return replace(fact, id=name, label=label, note=note)


def _single(name: str, label: str, series: Series, index: int) -> Fact:
    value, note = float(series.values[index]), f"{series.key} at step {int(series.steps[index])}"
    return Fact(name, label, value, "number", "value", (series.source(index),), note=note)


def _recent_mean(name: str, label: str, series: Series, recipe: Recipe = "mean") -> Fact:
    n = min(RECENT, len(series.values))
    values = series.values[-n:]
    value = float(np.mean(values) if recipe == "mean" else np.median(values))
    sources = tuple(series.source(index) for index in range(-n, 0))
    text = f"{label}, {recipe} of the last {n} rows"
    return Fact(name, text, value, "number", recipe, sources, note=series.key)


def _wall_time(record: Record) -> Iterator[Fact]:
    start = _first_journal_time(record.result_dir / "journal.jsonl")
    ends = [
        (end, Source(f"{attempt.folder}/exit.json", key="ended_at"))
        for attempt in record.attempts
        if (end := number_in(attempt.exit or {}, "ended_at")) is not None
    ]
    if start is None or not ends or ends[-1][0] < start:  # the machine's clock was set back
        return
    end, source = ends[-1]
    sources = (source, Source("journal.jsonl", 1, key="time"))
    yield Fact(
        "key/wall_time",
        "wall time, first decision to the end of training",
        end - start,
        "seconds",
        "elapsed",
        sources,
    )


def _first_journal_time(path: Path) -> float | None:
    try:
        with path.open("rb") as file:
            entry = parse_object(file.readline())
    except OSError:
        return None
    return number_in(entry, "time") if entry else None
