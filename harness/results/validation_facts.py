"""The numbers of one validation as facts, and a check of the trainer's own summary against them.

In: an `Evaluation`. Out: facts with ids `val/STEP/COLUMN`: computed from per-task results with intervals
where there are any, else what the trainer reported, without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

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
    for column, unit, recipe, measure in _columns(min(len(task.successes) for task in evaluation.tasks)):
        name, label = f"val/{evaluation.step}/{column}", f"{column} at step {evaluation.step}"
        value, interval = task_statistics.by_recipe(recipe, (evaluation.tasks,), measure, unit)
        yield Fact(name, label, value, unit, recipe, (evaluation.source,), measure, interval)


def _columns(tries: int) -> Iterator[tuple[str, Unit, Recipe, str]]:
    """Column, unit, recipe and measure of what is computed when every task has so many episodes."""
    yield "pass_n", "count", "task_min", "episodes"
    yield "total_tasks", "count", "task_sum", "tasks"
    yield "num_all_success_tasks", "count", "task_sum", "all"
    yield "num_pass_n_tasks", "count", "task_sum", "any"
    yield "task_pass_rate@1", "rate", "task_mean", "pass"
    ks = [k for k in (2, 4, 8, 16, 32, 64) if k <= tries]
    for k in ks:
        yield f"task_pass_rate@{k}", "rate", "task_mean", f"first@{k}"
    yield "mean_reward", "number", "task_mean", "reward"
    yield "std_reward", "number", "episode_std", ""
    for k in ks:
        yield f"unbiased_pass@{k}", "rate", "task_mean", f"unbiased@{k}"


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
