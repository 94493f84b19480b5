"""Sweeps as their journals tell them, made up: for the display and for `harness ls`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness import index
from harness.config.edit import Scalar
from harness.journal import Entry, Event, Journal
from harness.sweep.plan import SweepPlan
from harness.sweep.state import (
    SWEEP,
    CanaryPassed,
    RunEnded,
    RunMeasured,
    RunStarted,
    SweepCreated,
    SweepState,
    fold,
)
from tests.harness.sweep.plans import grid

BEGIN = 1_000_000.0
Timed = tuple[float, Event]
"""Seconds after the beginning, and what happened."""
CHECKED: Timed = (0.0, CanaryPassed("the first step"))


def plan(
    keys: dict[str, Sequence[Scalar]], seeds: Sequence[int | None] = (0, 1, 2), **given: Any
) -> SweepPlan:
    """A grid over these keys, four runs at once."""
    own = {"name": "ablation", "metric": "task_pass_rate@1", "goal": "max", "parallel": 4}
    return grid(keys, seeds, **{**own, **given})


def started(at: float, run: str, job: int = 1) -> Timed:
    return at, RunStarted(run, job, f"{run}-{job}")


def ended(at: float, run: str, outcome: str = "succeeded", reason: str = "") -> Timed:
    return at, RunEnded(run, outcome, reason)


def measured(at: float, run: str, value: float) -> Timed:
    return at, RunMeasured(run, value)


def succeeded(begin: float, end: float, run: str, value: float) -> tuple[Timed, ...]:
    return started(begin, run), ended(end, run), measured(end, run, value)


def state(plan: SweepPlan, *events: Timed) -> SweepState:
    created: Timed = (0.0, SweepCreated("5eed5eed5eed", plan))
    numbered = enumerate((created, *events), start=1)
    return fold(Entry(number, BEGIN + at, event) for number, (at, event) in numbered)


def write(folder: Path, plan: SweepPlan, *events: Timed, sweep_id: str = "5eed5eed5eed") -> Path:
    """The sweep's folder with its journal, listed in the index."""
    folder.mkdir(parents=True)
    times = iter([BEGIN, *(BEGIN + at for at, _ in events)])
    index.add(index.IndexedRun(sweep_id, plan.name, str(folder), BEGIN, "sweep"))
    with Journal(folder / "sweep.jsonl", lambda: next(times), SWEEP) as journal:
        journal.append(SweepCreated(sweep_id, plan))
        for _, event in events:
            journal.append(event)
    return folder


def write_metrics(run: Path, steps: int, attempt: int = 1) -> None:
    folder = run / "attempts" / f"{attempt:02d}"
    folder.mkdir(parents=True)
    rows = (f'{{"step": {step}, "values": {{"loss": {1 / step}}}}}\n' for step in range(1, steps + 1))
    (folder / "metrics.jsonl").write_text("".join(rows))
