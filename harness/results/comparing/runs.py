"""What each run came to: its folder read once, then the metric's value, or in plain words why there is none.

In: `PlannedRun`s. Out: `RunFiles` (everything read), then `RunResult`s. `settled` judges what only all runs
together tell: whether a run that its time limit ended got as far as the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness import journal
from harness.results import deviations
from harness.results.collect import collect
from harness.results.comparing import metrics
from harness.results.comparing.types import Curve, PlannedRun, RunResult
from harness.results.raw import json_file, number_in
from harness.results.summary import run_summary
from harness.results.types import Record, RunSummary
from harness.state import COUNTING

NEVER_STARTED, UNFINISHED = "never started", "unfinished"
ENDED_BY_ITSELF = ("succeeded", "succeeded_with_changed_code")


@dataclass(frozen=True)
class RunFiles:
    """One run's folder, read. `outcome`, `reason`: as in its finish.flag, else `NEVER_STARTED` or
    `UNFINISHED`."""

    run: PlannedRun
    outcome: str
    reason: str
    record: Record
    summary: RunSummary

    @property
    def may_count(self) -> bool:
        return self.outcome in COUNTING


def read_files(run: PlannedRun) -> RunFiles:
    """Read a run's folder. Never fails for what the files hold."""
    flag = json_file(run.folder / "finish.flag", "finish.flag", []) or {}
    try:
        entries = journal.read(run.folder / "journal.jsonl")
    except journal.JournalDamagedError:
        entries = []
    summary = run_summary(entries)
    record = collect(run.folder)
    has_begun = bool(entries or record.attempts or flag)
    outcome = str(flag.get("outcome") or (UNFINISHED if has_begun else NEVER_STARTED))
    return RunFiles(run, outcome, str(flag.get("reason", "")), record, summary)


def result_of(files: RunFiles, metric: str, never: Mapping[str, str] | None = None) -> RunResult:
    """What a run came to; `settled` has the last word on runs that their time limit ended. `never`: run to
    the reason why it was not started, or not carried to an end."""
    record = files.record
    found = metrics.measured(record, metric) if metric else None
    evaluation = record.evaluations[-1] if record.evaluations else None
    ends = [attempt.span[1].value for attempt in record.attempts if attempt.span]
    result = RunResult(
        run=files.run,
        outcome=files.outcome,
        reason=files.reason or (never or {}).get(files.run.name, ""),
        value=None,
        tasks=evaluation.tasks if evaluation else (),
        last_step=int(ends[-1]) if ends else None,
        hours=_hours([attempt.exit for attempt in record.attempts]),
        attempts=len(record.attempts),
        deviations=_deviations(files.summary),
        code_changed=any(c.kind == "code" for one in files.summary.attempts for c in one.changes),
    )
    if found is not None:
        result = replace(result, curve=Curve(found.steps, found.values), source=found.source)
    why_not = _why_not(result, metric)
    if why_not or found is None:
        return replace(result, why_not=why_not)
    return replace(result, value=found.value)


def _why_not(result: RunResult, metric: str) -> str:
    step = f" (last step {result.last_step})" if result.last_step is not None else ""
    if result.outcome == NEVER_STARTED:
        return f"never started: {result.reason}" if result.reason else "never started"
    if result.outcome == UNFINISHED:
        return f"has not finished{f': {result.reason}' if result.reason else ''}{step}"
    if result.outcome not in COUNTING:
        words = result.outcome.replace("_", " ")
        return f"{words}: {result.reason}{step}" if result.reason else f"{words}{step}"
    if not result.curve.steps:
        return f"has no {metric}{step}" if metric else f"no metric to compare it by{step}"
    return ""


def _hours(exits: Sequence[Mapping[str, Any] | None]) -> float | None:
    """Wall time of all attempts together; None where no attempt tells it."""
    spans = [(number_in(one, "started_at"), number_in(one, "ended_at")) for one in exits if one]
    known = [end - start for start, end in spans if start is not None and end is not None and end >= start]
    return sum(known) / 3600 if known else None


def _deviations(summary: RunSummary) -> tuple[str, ...]:
    return tuple(
        f"attempt {attempt.number}: {deviations.sentence(attempt.changes)}"
        for attempt in summary.attempts
        if attempt.changes
    )


# --- all runs together --------------------------------------------------------------------------------------


def settled(results: Sequence[RunResult]) -> tuple[RunResult, ...]:
    """The runs that count, and the others without a value.

    A run that its time limit ended counts when its last measurement is at least as late as that of the first
    to end among the runs of its point that ended by themselves (of all points, where its own has none); where
    no run ended by itself, all were given the same time and count.
    """
    return tuple(_settled(result, results) for result in results)


def _settled(result: RunResult, results: Sequence[RunResult]) -> RunResult:
    if result.value is None:
        return result
    if not math.isfinite(result.value * result.value):  # the statistics square it
        return replace(result, value=None, why_not=_diverged(result))
    if result.outcome != "timed_out":
        return result
    whole = [other for other in results if other.outcome in ENDED_BY_ITSELF and other.curve.steps]
    own = [other for other in whole if other.run.point == result.run.point]
    goal = min((other.curve.steps[-1] for other in own or whole), default=0)
    if result.curve.steps and result.curve.steps[-1] >= goal:
        return result
    reached = result.curve.steps[-1] if result.curve.steps else result.last_step
    why = f"ended by its time limit: last measured at step {reached}, the others until step {goal}"
    return replace(result, value=None, why_not=why)


def _diverged(result: RunResult) -> str:
    pairs = zip(result.curve.steps, result.curve.values, strict=True)
    step = next((step for step, value in pairs if not math.isfinite(value)), None)
    if step is None:
        return f"diverged: its value is {result.value:g}"
    return f"diverged: NaN or infinite, first at step {step}"
