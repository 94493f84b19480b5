"""What a run of a sweep measured: the metric that the runs are compared by, and its value at the end.

In: a run's folder, and what the sweep knows. Out: a `Measurement`. The plan names the metric; where it does
not, the first run that ends does, by the purpose of its blueprint.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from harness.results.comparing import metrics
from harness.results.comparing.runs import ENDED_BY_ITSELF, RunFiles, read_files
from harness.results.comparing.types import Goal, PlannedRun
from harness.results.result import end_of, metric_names
from harness.sweep.plan import SweepRun
from harness.sweep.state import SweepState
from harness.wording import did_you_mean, listed

MOST_NAMED = 10


@dataclass(frozen=True)
class Measurement:
    """`metric`: "" where the run does not have it; `lacks`: why runs cannot be compared by it, "" where they
    can or this run cannot tell; `value`: at its end, None where there is none, it is no finite number, or
    rows after it may be lost with the log; `why`: how the metric was chosen, where nobody named it."""

    metric: str = ""
    goal: Goal | None = None
    value: float | None = None
    lacks: str = ""
    why: str = ""

    @classmethod
    def of(cls, result_dir: Path, run: SweepRun, state: SweepState) -> Measurement:
        """Read the run. Never fails for what its files hold."""
        files = read_files(PlannedRun(run.name, run.point, run.seed, result_dir))
        names = metric_names(files.record)
        metric, goal, why = metrics.full_name(state.metric, names), state.goal, state.metric_why
        led = None if metric else metrics.choose([files.record], files.story.state.blueprint)
        if led is not None:
            metric, goal, why = led.name, goal or led.goal, led.why
        last = end_of(files.record, metric) if metric else None
        if last is None:
            return cls(lacks=_lacking(run, files, metric, names))
        is_known = math.isfinite(last.value) and not files.record.may_go_on(last.sources)
        return cls(metric, goal, last.value if is_known else None, why=why)


def _lacking(run: SweepRun, files: RunFiles, metric: str, names: list[str]) -> str:
    """What is wrong where a run has not the metric, "" where it need not have it."""
    is_unvalidated = metric.startswith("val/") and not any(name.startswith("val/") for name in names)
    if files.outcome not in ENDED_BY_ITSELF or (run.is_canary and names and is_unvalidated):
        return ""
    if not names:
        log = "`harness metrics` shows what can be read in its log"
        return f"{run.name} has no row of metrics, so that no runs could be compared: {log}"
    if not metric:
        return ""
    hint = did_you_mean(metric, names, "; did you mean {}?")
    return f"no run has {metric}{hint or ''} ({run.name} has: {listed(names, MOST_NAMED)})"
