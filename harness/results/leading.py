"""The metric that leads a run, and the direction in which it gets better.

It is the one that `[exp_metrics]` or the purpose names, else the most telling one. In: the plan and the names
of metrics. Out: `Leading`. Light, so that a live display asks it too; what a run came to is in `result`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.blueprint.types import Blueprint, MetricSpec
from harness.wording import did_you_mean
from monitors.metrics import names
from monitors.metrics.names import Direction, is_validation
from monitors.metrics.row import metric_name

PASS_RATE = "val/task_pass_rate@1"
NO_GOAL = "direction not known: say `goal: max` or `goal: min` in [exp_metrics]"
CHOSEN = "chosen by its name: the purpose names no metric"
_BESIDE = re.compile(r"^val/(?:unbiased_pass@|task_pass_rate@(?!1$))")  # the same tasks, counted otherwise


@dataclass(frozen=True)
class Leading:
    """The metric that leads. `goal`: the better direction, None where it is not known; `why`: how it came to
    lead where the plan does not name it."""

    name: str
    goal: Direction | None
    why: str = ""

    @property
    def note(self) -> str:
        """The same, with what is not known of it."""
        return "; ".join(filter(None, ("" if self.goal else NO_GOAL, self.why)))


def leading_metric(plan: Blueprint, known: Iterable[str]) -> Leading | None:
    """The metric of these that leads; None where none says what it measures."""
    spec = plan.metrics or MetricSpec(())
    every = list(dict.fromkeys(known))
    exact = next((name for name in every if _is_called(name, spec.metric)), None)
    name = exact or _chosen([name for name in every if not _BESIDE.match(name)], spec.metric, plan.purpose)
    if name is None:
        return None
    goal = spec.goal or names.direction(name)
    why = ""
    if spec.metric and not exact:
        hint = did_you_mean(spec.metric, every, "; did you mean {}?")
        why = f"[exp_metrics] names {spec.metric}, which no row has{hint}"
    elif name != PASS_RATE and not named_by(plan, every):
        why = CHOSEN
    return Leading(name, goal, why)


def named_by(plan: Blueprint, known: Iterable[str]) -> str:
    """The metric that the plan names, in `[exp_metrics]` or of the known ones in its purpose; "" for none."""
    spec = plan.metrics or MetricSpec(())
    return spec.metric or names.named(known, plan.purpose) or ""


def goal_of(plan: Blueprint, metric: str) -> Direction | None:
    """The direction in which a metric gets better: what the plan says of it, else what its name says."""
    spec = plan.metrics or MetricSpec(())
    is_own = not spec.metric or _is_called(metric, spec.metric)
    return (spec.goal if is_own else None) or names.direction(metric)


def _is_called(name: str, wanted: str) -> bool:
    return bool(wanted) and name.lower() in (metric_name(wanted), f"val/{metric_name(wanted)}")


def _chosen(known: Sequence[str], wanted: str, purpose: str) -> str | None:
    name = names.named(known, wanted) or names.leading(known, purpose)
    is_of_training = name is not None and not is_validation(name)
    return PASS_RATE if is_of_training and PASS_RATE in known and not wanted else name


def best_of(values: Sequence[float], goal: Direction | None) -> int | None:
    """Index of the best finite value, the first of equals; None where the direction is not known."""
    finite = [index for index, value in enumerate(values) if math.isfinite(value)]
    if goal is None or not finite:
        return None
    sign = -1.0 if goal == "max" else 1.0
    return min(finite, key=lambda index: sign * values[index])
