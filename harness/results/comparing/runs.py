"""What each run came to: its folder read once, then the metric's value, or in plain words why there is none.

In: `PlannedRun`s. Out: `RunFiles` (everything read), then `RunResult`s. `settled` judges what only all runs
together tell: whether a run that its time limit ended got as far as the others; seeds run again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness import journal
from harness.results import deviations
from harness.results.collect import collect
from harness.results.comparing.types import Curve, MeasuredBy, PlannedRun, RunResult
from harness.results.raw import json_file, number_in
from harness.results.result import end_of, points_of
from harness.results.run import RunStory
from harness.results.types import LOG_CUT, Record
from harness.state import COUNTING
from monitors.metrics.axis import whole

NEVER_STARTED, UNFINISHED = "never started", "unfinished"
ENDED_BY_ITSELF = ("succeeded", "succeeded_with_changed_code")
BY_TRAINING = "measured by its training, the others by the evaluation after it"


@dataclass(frozen=True)
class RunFiles:
    """One run's folder, read. `outcome`, `reason`: as in its finish.flag, else `NEVER_STARTED` or
    `UNFINISHED`."""

    run: PlannedRun
    outcome: str
    reason: str
    record: Record
    story: RunStory

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
    record = collect(run.folder)
    has_begun = bool(entries or record.attempts or flag)
    outcome = str(flag.get("outcome") or (UNFINISHED if has_begun else NEVER_STARTED))
    return RunFiles(run, outcome, str(flag.get("reason", "")), record, RunStory.of(entries))


def results_of(
    files: Sequence[RunFiles], metric: str, never: Mapping[str, str]
) -> tuple[list[RunResult], MeasuredBy]:
    """What the runs came to, measured alike in all. Where only some were evaluated after the training, the
    others are left out, unless that leaves fewer points than what the trainings themselves measured."""
    results = [result_of(one, metric, never) for one in files]
    if len({one.evaluated for one in results if one.value is not None}) < 2:
        return results, ""
    alone = [replace(one, record=replace(one.record, evaluated={})) for one in files]
    trained = [result_of(one, metric, never) for one in alone]
    evaluated = [
        one if one.evaluated or one.value is None else replace(one, value=None, why_not=BY_TRAINING)
        for one in results
    ]
    trained_points, evaluated_points = (
        {one.run.point for one in found if one.value is not None} for found in (trained, evaluated)
    )
    is_by_training = len(trained_points) > len(evaluated_points)
    return (trained, "training") if is_by_training else (evaluated, "evaluation")


def result_of(files: RunFiles, metric: str, never: Mapping[str, str] | None = None) -> RunResult:
    """What a run came to; `settled` has the last word. `never`: run to the reason why it was not started, or
    not carried to an end."""
    record = files.record
    made = {attempt.number: deviations.deviating(attempt.draft) for attempt in files.story.attempts}
    changed = {number: changes for number, changes in made.items() if changes}
    points = points_of(record, metric) if metric else None
    last = end_of(record, metric) if metric else None
    ends = [attempt.span[1].value for attempt in record.attempts if attempt.span]
    result = RunResult(
        run=files.run,
        outcome=files.outcome,
        reason=files.reason or (never or {}).get(files.run.name, ""),
        value=None,
        tasks=record.evaluations[-1].tasks if record.evaluations and not record.evaluated else (),
        last_step=int(ends[-1]) if ends else None,
        hours=_hours(record),
        attempts=len(record.attempts),
        curve=Curve(tuple(map(whole, points.positions)), tuple(points.values)) if points else Curve(),
        source=last.sources[0] if last else None,
        deviations=tuple(
            f"attempt {number}: {deviations.sentence(each)}" for number, each in changed.items()
        ),
        by_person=tuple(change.text for each in changed.values() for change in each if change.allowed_by),
        code_changed=any(change.kind == "code" for each in changed.values() for change in each),
        evaluated=metric in record.evaluated,
    )
    if last is None or not files.may_count:
        return replace(result, why_not=_why_not(result, metric))
    if record.may_go_on(last.sources):
        return replace(result, why_not=f"the last {metric} is not known: {LOG_CUT}")
    return replace(result, value=last.value)


def _why_not(result: RunResult, metric: str) -> str:
    step = f" (last step {result.last_step})" if result.last_step is not None else ""
    if result.outcome in COUNTING:
        return f"has no {metric}{step}" if metric else f"no metric to compare it by{step}"
    words = "has not finished" if result.outcome == UNFINISHED else result.outcome.replace("_", " ")
    return f"{words}{f': {result.reason}' if result.reason else ''}{step}"


def _hours(record: Record) -> float | None:
    """Wall time of all attempts together; None where no attempt tells it."""
    exits = [attempt.exit for attempt in record.attempts if attempt.exit]
    spans = [(number_in(one, "started_at"), number_in(one, "ended_at")) for one in exits]
    known = [end - start for start, end in spans if start is not None and end is not None and end >= start]
    return sum(known) / 3600 if known else None


# --- all runs together --------------------------------------------------------------------------------------


def settled(results: Sequence[RunResult]) -> tuple[RunResult, ...]:
    """The runs that count, and the others without a value.

    A run that its time limit ended counts when its last measurement is at least as late as that of the first
    to end among the runs of its point that ended by themselves (of all points, where its own has none); where
    no run ended by itself, all were given the same time and count. A seed of a point counts once.
    """
    firsts: dict[tuple[str, int], RunResult] = {}
    found = []
    for result in results:
        why_not = "" if result.value is None else _unusable(result, result.value, results)
        if result.value is not None and not why_not and result.run.seed is not None:
            first = firsts.setdefault((result.run.point, result.run.seed), result)
            if result is not first:
                why_not = f"the same seed as {first.run.name}: says nothing about other seeds"
        found.append(replace(result, value=None, why_not=why_not) if why_not else result)
    return tuple(found)


def _unusable(result: RunResult, value: float, results: Sequence[RunResult]) -> str:
    """Why the value of a run does not count; "" where it does."""
    curve = result.curve
    if not math.isfinite(value * value):  # the statistics square it
        pairs = zip(curve.steps, curve.values, strict=True)
        step = next((step for step, number in pairs if not math.isfinite(number)), None)
        what = f"its value is {value:g}" if step is None else f"NaN or infinite, first at step {step}"
        return f"diverged: {what}"
    if result.outcome != "timed_out":
        return ""
    whole = [other for other in results if other.outcome in ENDED_BY_ITSELF and other.curve.steps]
    own = [other for other in whole if other.run.point == result.run.point]
    goal = min((other.curve.steps[-1] for other in own or whole), default=0)
    reached = curve.steps[-1] if curve.steps else -1
    if reached >= goal:
        return ""
    return f"ended by its time limit: last measured at step {reached}, the others until step {goal}"
