"""Which number stands for a run: the name of the metric, its curve, and its value at the end.

In: a run's `Record`. Out: `Measured`. A validation metric (`val/NAME`) is the one of the last validation,
from its tasks where they were written, else as the trainer reported it; any other metric is the last value:
the result as the run's own report has it (`results.result`). It is never the best validation, nor a mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.blueprint.types import Blueprint
from harness.results import task_statistics
from harness.results.comparing.types import Curve, Goal
from harness.results.leading import goal_of, leading_metric
from harness.results.result import metric_names, points_of
from harness.results.types import Record, Source, TaskResult
from harness.wording import did_you_mean, listed
from monitors.metrics.axis import whole
from monitors.metrics.row import metric_name

_RATE = re.compile(r"pass_rate|unbiased_pass|success_rate|accuracy|(?<![a-z])acc(?![a-z])", re.IGNORECASE)


@dataclass(frozen=True)
class Measured:
    """A metric over one run. `value`: at its end, NaN where it diverged."""

    value: float
    source: Source
    curve: Curve


def full_name(metric: str, known: Iterable[str] = ()) -> str:
    """The metric as the rows call it: `task_pass_rate@1` is `val/task_pass_rate@1`; one of the known names
    where they differ in case or blanks alone."""
    name = f"val/{metric}" if metric.startswith(("task_pass_rate@", "unbiased_pass@")) else metric
    return next((one for one in known if one.lower() == metric_name(name)), name)


def is_rate(metric: str) -> bool:
    """True if the metric is a share between 0 and 1."""
    return bool(_RATE.search(metric))


def measure_of(metric: str) -> str:
    """What `task_statistics.task_values` calls a validation metric that tasks tell; "" for any other."""
    return task_statistics.measure_of(metric.removeprefix("val/")) if metric.startswith("val/") else ""


def of_tasks(tasks: Sequence[TaskResult], metric: str) -> float | None:
    """The metric from the results of the tasks; None where they do not tell it."""
    return task_statistics.of_tasks(tasks, metric.removeprefix("val/")) if metric.startswith("val/") else None


def measured(record: Record, metric: str) -> Measured | None:
    """The metric over the run; None where the run does not have it."""
    points = points_of(record, metric)
    if not points:
        return None
    curve = Curve(tuple(whole(point.position) for point in points), tuple(point.value for point in points))
    return Measured(points[-1].value, points[-1].sources[0], curve)


# --- which metric -------------------------------------------------------------------------------------------


def common(records: Sequence[Record]) -> list[str]:
    """The metrics that all of these runs have, validations first."""
    names = [metric_names(record) for record in records]
    return [name for name in names[0] if all(name in others for others in names)] if names else []


def choose(records: Sequence[Record], plan: Blueprint) -> tuple[str, Goal | None]:
    """The metric to compare runs by where none was named, and which way is better: of those that all have the
    plan's leading one, else the only one that changes in all; "" where that leaves none or several."""
    shared = common(records)
    found = leading_metric(plan, shared)
    if found is not None:
        return found.name, found.goal
    changing = [name for name in shared if all(_changes(record, name) for record in records)]
    return (changing[0], goal_of(plan, changing[0])) if len(changing) == 1 else ("", None)


def suggestion(metric: str, shared: Sequence[str]) -> str:
    """What to ask for instead of a metric that is not there, or of none."""
    if not shared:
        return "these runs have no metric in common"
    hint = did_you_mean(metric, shared, "did you mean {}? ")
    return f"{hint}all of them have: {listed(shared, 20)}"


def _changes(record: Record, name: str) -> bool:
    found = measured(record, name)
    return found is not None and len(set(found.curve.values)) > 1
