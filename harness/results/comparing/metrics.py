"""Which metric runs are compared by: as it was named, else of those that all runs have.

In: runs' `Record`s. Out: a name, and which way is better. Its value is the last one, as the run's own report
has it (`results.result`); never the best validation, nor a mean.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from harness.blueprint.types import Blueprint
from harness.results.leading import Leading, goal_of, leading_metric, named_by
from harness.results.result import RATES, measured_names, metric_names, points_of
from harness.results.types import Record
from harness.wording import did_you_mean, listed
from monitors.metrics.row import metric_name

_RATE = re.compile(r"pass_rate|unbiased_pass|success_rate|accuracy|(?<![a-z])acc(?![a-z])", re.IGNORECASE)


def full_name(metric: str, known: Iterable[str] = ()) -> str:
    """The metric as the rows call it: `task_pass_rate@1` is `val/task_pass_rate@1`; one of the known names
    where they differ in case or blanks alone."""
    name = f"val/{metric}" if metric.startswith(RATES) else metric
    return next((one for one in known if one.lower() == metric_name(name)), name)


def is_rate(metric: str) -> bool:
    """True if the metric is a share between 0 and 1."""
    return bool(_RATE.search(metric))


def common(
    records: Sequence[Record], names_of: Callable[[Record], Sequence[str]] = metric_names
) -> list[str]:
    """The metrics that all of these runs have, validations first."""
    names = [names_of(record) for record in records]
    return [name for name in names[0] if all(name in others for others in names)] if names else []


def planned(plans: Iterable[Blueprint], records: Iterable[Record]) -> str:
    """The metric that the plans of all these runs name; "" where they name none, or several."""
    known = list(dict.fromkeys(name for record in records for name in measured_names(record)))
    named = {named_by(plan, known) for plan in plans}
    return named.pop() if len(named) == 1 else ""


def choose(records: Sequence[Record], plan: Blueprint) -> Leading | None:
    """The metric to compare runs by where none was named: of those that all have the plan's leading one, else
    the only one that changes in all; None where that leaves none or several."""
    shared = common(records, measured_names) or common(records)
    found = leading_metric(plan, shared)
    if found is not None:
        return found
    values = {name: [points_of(record, name).values for record in records] for name in shared}
    changing = [name for name, of_runs in values.items() if all(len(set(each)) > 1 for each in of_runs)]
    if len(changing) != 1:
        return None
    return Leading(changing[0], goal_of(plan, changing[0]), "chosen as the only one that changes in all runs")


def suggestion(metric: str, shared: Sequence[str]) -> str:
    """What to ask for instead of a metric that is not there, or of none."""
    if not shared:
        return "these runs have no metric in common"
    hint = did_you_mean(metric, shared, "did you mean {}? ")
    return f"{hint}all of them have: {listed(shared, 20)}"
