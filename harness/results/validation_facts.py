"""The numbers of one validation as facts, and a check of the trainer's own summary against them.

In: an `Evaluation`. Out: facts with ids `val/STEP/COLUMN`: computed from per-task results with intervals
where there are any, else what the trainer reported, without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from harness.results import task_statistics
from harness.results.types import Discrepancy, Evaluation, Fact, Recipe, Record, Unit

_REPORTED_TOLERANCE = 1e-3  # a Markdown table rounds
_RATE_COLUMNS = ("task_pass_rate", "unbiased_pass")
_COUNT_COLUMNS = ("total_tasks", "pass_n", "num_all_success_tasks", "num_pass_n_tasks")


def evaluation_facts(evaluation: Evaluation) -> Iterator[Fact]:
    """The row of the validation table for one validation."""
    if not evaluation.tasks or evaluation.source is None:
        yield from _reported_facts(evaluation)
        return
    tries = int(task_statistics.task_values(evaluation.tasks, "episodes").min())
    yield _task_fact(evaluation, "pass_n", "count", "task_min", "episodes")
    yield _task_fact(evaluation, "total_tasks", "count", "task_sum", "tasks")
    yield _task_fact(evaluation, "num_all_success_tasks", "count", "task_sum", "all")
    yield _task_fact(evaluation, "num_pass_n_tasks", "count", "task_sum", "any")
    yield _task_fact(evaluation, "task_pass_rate@1", "rate", "task_mean", "pass")
    for k in (2, 4, 8, 16, 32, 64):
        if k <= tries:
            yield _task_fact(evaluation, f"task_pass_rate@{k}", "rate", "task_mean", f"first@{k}")
            yield _task_fact(evaluation, f"unbiased_pass@{k}", "rate", "task_mean", f"unbiased@{k}")
    yield _task_fact(evaluation, "mean_reward", "number", "task_mean", "reward")
    yield Fact(
        f"val/{evaluation.step}/std_reward",
        f"std_reward at step {evaluation.step}",
        float(np.std([reward for task in evaluation.tasks for reward in task.rewards])),
        "number",
        "episode_std",
        (evaluation.source,),
    )


def _task_fact(evaluation: Evaluation, column: str, unit: Unit, recipe: Recipe, measure: str) -> Fact:
    assert evaluation.source is not None
    values = task_statistics.task_values(evaluation.tasks, measure)
    interval = None
    if recipe == "task_mean":
        interval = task_statistics.mean_interval(values, (0.0, 1.0) if unit == "rate" else None)
    value = task_statistics.reduce_tasks(values, recipe)
    return Fact(
        f"val/{evaluation.step}/{column}",
        f"{column} at step {evaluation.step}",
        value,
        unit,
        recipe,
        (evaluation.source,),
        measure,
        interval,
    )


def _reported_facts(evaluation: Evaluation) -> Iterator[Fact]:
    for column, reported in evaluation.reported.items():
        unit: Unit = "number"
        if column.startswith(_RATE_COLUMNS):
            unit = "rate"
        elif column in _COUNT_COLUMNS:
            unit = "count"
        yield Fact(
            f"val/{evaluation.step}/{column}",
            f"{column} at step {evaluation.step}",
            reported.value,
            unit,
            "value",
            (reported.source,),
            note="no per-task results, so no interval",
        )


def reported_differences(record: Record, facts: Mapping[str, Fact]) -> Iterator[Discrepancy]:
    """Where the trainer's own summary of a validation disagrees with its per-task results."""
    for evaluation in record.evaluations:
        for column, reported in evaluation.reported.items():
            fact = facts.get(f"val/{evaluation.step}/{column}")
            if not evaluation.tasks or fact is None or column == "std_reward":
                continue
            if not abs(fact.value - reported.value) <= _REPORTED_TOLERANCE:
                told = f"the trainer reported {reported.value:g} ({reported.source})"
                yield Discrepancy(
                    fact.label, f"{told}, its per-task results ({fact.place}) give {fact.value:g}"
                )
