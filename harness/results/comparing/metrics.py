"""Which number stands for a run: the name of the metric, its curve, and its value at the end.

In: a run's `Record`. Out: `Measured`. A validation metric (`val/NAME`) is the one of the last validation,
from its tasks where they were written, else as the trainer reported it; never that of the best validation.
Any other metric is the mean of the last rows, as in the run's own report, or, where it is measured only now
and then, the last value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.results import task_statistics
from harness.results.comparing.types import Curve
from harness.results.facts import RECENT, REWARD_KEYS
from harness.results.types import Evaluation, Record, Series, Source, TaskResult
from harness.wording import did_you_mean, listed

PASS_RATE = "val/task_pass_rate@1"
_RATE = re.compile(r"pass_rate|unbiased_pass|success_rate|accuracy|(?<![a-z])acc(?![a-z])", re.IGNORECASE)
_EVERY_STEP = 0.5  # a metric that has fewer values than this share of the steps is measured now and then


@dataclass(frozen=True)
class Measured:
    """A metric over one run. `value`: at its end, NaN where it diverged."""

    value: float
    source: Source
    curve: Curve


def full_name(metric: str) -> str:
    """The metric as metrics.jsonl calls it: `task_pass_rate@1` is `val/task_pass_rate@1`."""
    return f"val/{metric}" if metric.startswith(("task_pass_rate@", "unbiased_pass@")) else metric


def is_rate(metric: str) -> bool:
    """True if the metric is a share between 0 and 1."""
    return bool(_RATE.search(metric))


def cost_per(metric: str) -> float:
    """The improvement whose cost is told: 0.01 of a rate, 1 of any other metric."""
    return 0.01 if is_rate(metric) else 1.0


def measure_of(metric: str) -> str:
    """What `task_statistics.task_values` calls a validation metric that tasks tell; "" for any other."""
    name, _, k = metric.removeprefix("val/").partition("@")
    if not metric.startswith("val/"):
        return ""
    if name == "task_pass_rate" and k:
        return "pass" if k == "1" else f"first@{k}"
    if name == "unbiased_pass" and k:
        return f"unbiased@{k}"
    return "reward" if name == "mean_reward" else ""


def of_tasks(tasks: Sequence[TaskResult], metric: str) -> float | None:
    """The metric from the results of the tasks; None where they do not tell it."""
    measure = measure_of(metric)
    if not measure or not tasks:
        return None
    k = int(measure.partition("@")[2] or 1)
    if k > min(len(task.successes) for task in tasks):
        return None
    return float(task_statistics.task_values(tasks, measure).mean())


def measured(record: Record, metric: str) -> Measured | None:
    """The metric over the run; None where the run does not have it."""
    if not metric.startswith("val/"):
        series = record.series.get(metric)
        return None if series is None else _logged(record, series)
    found = [(one.step, *_validated(one, metric)) for one in record.evaluations]
    known = [(step, value, source) for step, value, source in found if value is not None and source]
    if not known:
        return None
    steps, values, sources = zip(*known, strict=True)
    return Measured(values[-1], sources[-1], Curve(steps, values))


def _validated(evaluation: Evaluation, metric: str) -> tuple[float | None, Source | None]:
    value = of_tasks(evaluation.tasks, metric)
    if value is not None:
        return value, evaluation.source
    reported = evaluation.reported.get(metric.removeprefix("val/"))
    return (reported.value, reported.source) if reported else (None, None)


def _logged(record: Record, series: Series) -> Measured:
    curve = Curve(tuple(map(int, series.steps)), tuple(map(float, series.values)))
    if len(curve.steps) < _EVERY_STEP * max(len(other.steps) for other in record.series.values()):
        return Measured(curve.values[-1], series.source(-1), curve)
    recent = series.attempts[-RECENT:] == series.attempts[-1]  # one source names lines of one file
    first, last = series.source(-int(recent.sum())), series.source(-1)
    source = Source(first.file, first.line, last.line, series.key)
    return Measured(float(np.mean(series.values[-RECENT:])), source, curve)


# --- which metric -------------------------------------------------------------------------------------------


def common(records: Sequence[Record]) -> list[str]:
    """The metrics that all of these runs have, validations first."""
    names = [_names(record) for record in records]
    return [name for name in names[0] if all(name in others for others in names)] if names else []


def choose(records: Sequence[Record]) -> str:
    """The metric to compare runs by where none was named: the pass rate of the validations, else a reward,
    else the only metric that changes in all of them; "" where that leaves no one or several."""
    shared = common(records)
    for name in (PASS_RATE, *REWARD_KEYS):
        if name in shared:
            return name
    changing = [name for name in shared if all(_changes(record, name) for record in records)]
    return changing[0] if len(changing) == 1 else ""


def suggestion(metric: str, shared: Sequence[str]) -> str:
    """What to ask for instead of a metric that is not there, or of none."""
    if not shared:
        return "these runs have no metric in common"
    hint = did_you_mean(metric, shared, "did you mean {}? ")
    return f"{hint}all of them have: {listed(shared, 20)}"


def _names(record: Record) -> list[str]:
    names: list[str] = []
    for evaluation in record.evaluations:
        if of_tasks(evaluation.tasks, PASS_RATE) is not None:
            names += [PASS_RATE, "val/mean_reward"]
        names += [f"val/{name}" for name in evaluation.reported]
    return list(dict.fromkeys([*names, *(key for key in record.series if not key.startswith("val/"))]))


def _changes(record: Record, name: str) -> bool:
    found = measured(record, name)
    return found is not None and len(set(found.curve.values)) > 1
