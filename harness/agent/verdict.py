"""How an end is judged: whether an attempt did what it owed, and the outcome of the whole experiment.

In: the exit record, the raw rows, the plan, the state. Out: a `Shortfall`, or a `Verdict`.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.attempt import AttemptEnd, Diagnosis, log_lost
from harness.blueprint.types import Blueprint, MetricSpec
from harness.config.training import TrainingConfig
from harness.diagnosis.reading import read
from harness.metric_files.reading import take_evaluation
from harness.results.raw import json_lines
from harness.state import ExperimentState, Outcome, Verdict
from harness.wording import listed, shortened
from monitors.files import AttemptFiles
from monitors.health import assess_last
from monitors.metrics import MetricPatterns, Row
from monitors.metrics_file import MetricTable

LONGEST_LINE = 200
_UNPICKLED = re.compile(r"^harness: unpickled (\S+)", re.MULTILINE)
_MOST_NAMED = 10


@dataclass(frozen=True)
class Shortfall:
    """What an attempt still owes, in words, and the family of failures that this belongs to."""

    text: str
    family: str = "silent_bad_metrics"


def settled(plan: Blueprint, attempts: Sequence[AttemptFiles], ended: AttemptEnd) -> AttemptEnd:
    """The end of the last of `attempts`, which knows how far that came, with whether it is all it owed."""
    if ended.status != 0:
        return ended
    files, metrics, owed = attempts[-1], plan.metrics or MetricSpec(()), None
    if plan.evaluate_command is not None:
        owed = evaluation_shortfall(files, ended, metrics.of_lines())
        ended = replace(ended, evaluate_ran=unpickled(files))
    names_metrics = plan.metrics is not None and plan.evaluate_command is None
    owed = owed or shortfall(names_metrics, attempts, ended.rows, ended.last_step)
    if owed is not None:
        return replace(ended, shortfall=owed.text, shortfall_family=owed.family)
    return replace(ended, complete=ended.reason == "exited")


def shortfall(
    names_metrics: bool, attempts: Sequence[AttemptFiles], rows: int, last_step: int | None
) -> Shortfall | None:
    """What the last of `attempts`, which exited with status 0, still owes, or None when it owes nothing.

    The bundled trainer, and any command whose blueprint names its metrics (`names_metrics`), owes at least
    one metric row; an `ajet:` config owes every validation it asked for, where an attempt that went on from a
    checkpoint may leave those before its first step to the attempts before it. Everybody owes numbers that
    are worth something: a run that ends with NaN, or whose reward was 0 from the first step to the last, has
    failed.
    """
    config = TrainingConfig.of_attempt(attempts[-1].config)
    if rows == 0:
        owes_rows = config.is_ajet or names_metrics
        return Shortfall("it exited with status 0 without a single metric row") if owes_rows else None
    merged = _Merged(attempts)
    missing = config.expected_validations(last_step or 0) - merged.validated
    if missing:
        steps = ", ".join(map(str, sorted(missing)))
        return Shortfall(f"it exited with status 0, but the validation at step {steps} is missing")
    # Of a command that began anew by itself, only what it did last counts.
    worthless = (alarm for alarm in assess_last(merged) if alarm.worthless and not alarm.passed)
    alarm = next(worthless, None)
    return Shortfall(f"it exited with status 0, but {alarm.text}", alarm.family) if alarm else None


def evaluation_shortfall(
    files: AttemptFiles, ended: AttemptEnd, patterns: MetricPatterns
) -> Shortfall | None:
    """What the evaluation of an attempt that exited with status 0 still owes: a status 0 of its own, and at
    least one metric. Its rows are written as evaluation.jsonl."""
    start, last = "it exited with status 0, but its evaluation", _last_line(files.evaluation_log)
    if ended.reason != "exited":
        return Shortfall(f"{start} was cut off ({ended.in_words})", "config_error")
    if ended.evaluate_status is None:
        return Shortfall(
            f"{start} could not be started: {ended.error or 'no reason is known'}", "config_error"
        )
    if ended.evaluate_status:
        said = f": {last} ({files.evaluation_log.name})" if last else " and printed nothing"
        return Shortfall(f"{start} ended with status {ended.evaluate_status}{said}", "config_error")
    if take_evaluation(files, patterns):
        return None
    return Shortfall(f"{start} printed no metric" + (f"; its last line is: {last}" if last else ""))


def unpickled(files: AttemptFiles) -> tuple[str, ...]:
    """What the evaluation of an attempt unpickled that may run code (`monitors/evaluated`)."""
    if not files.evaluation_log.exists():
        return ()
    text = files.evaluation_log.read_text(encoding="utf-8", errors="replace")
    return tuple(sorted({shortened(name, LONGEST_LINE) for name in _UNPICKLED.findall(text)}))[:_MOST_NAMED]


def _last_line(log: Path) -> str:
    lines = read(log, ()).last if log.exists() else ()
    return shortened(lines[-1].text, LONGEST_LINE) if lines else ""


class _Merged:
    """The metric rows of all attempts with their lines; a later attempt replaces what was from its first step
    on. `validated`: the steps with a validation, in the trainer's raw file or among the rows."""

    def __init__(self, attempts: Sequence[AttemptFiles]) -> None:
        self._tables: list[tuple[MetricTable, float]] = []  # and where a later attempt takes over
        self.validated: set[int] = set()
        for files in attempts:
            own = MetricTable.read(files.metrics)
            if own:
                first = min(row.at for row in own.bare())
                self._tables = [(table, min(end, first)) for table, end in self._tables]
                self.validated = {step for step in self.validated if step < first}
            self._tables.append((own, math.inf))
            tasks = json_lines(files.trainer / "validation.jsonl", "validation.jsonl", [])
            self.validated |= {task.data["step"] for task in tasks}
            is_told = [any(name.startswith("val") for name in names) for names in own.shapes]
            rows = zip(own.bare(), own.shape, strict=True) if any(is_told) else ()
            self.validated |= {row.step or 0 for row, shape in rows if is_told[shape]}

    def __iter__(self) -> Iterator[tuple[int, Row]]:
        for table, end in self._tables:
            yield from ((line, row) for line, row in table.rows() if row.at < end)


def verdict(state: ExperimentState, now: float) -> Verdict:
    """The outcome of an experiment whose last attempt is over (or that never launched one). What is lost of
    the log changes no outcome, and is always said."""
    judged, ended = _judged(state, now), state.attempt.ended if state.attempt is not None else None
    lost = log_lost(ended.log_lost_bytes, ended.log_lost_why) if ended is not None else ""
    return replace(judged, reason=f"{judged.reason}; {lost}") if lost else judged


def _judged(state: ExperimentState, now: float) -> Verdict:
    attempt = state.attempt
    is_complete = attempt is not None and attempt.ended is not None and attempt.ended.complete
    if state.stop_asked and (attempt is None or attempt.stop_reason == "person" or not is_complete):
        return Verdict(Outcome.CANCELLED, f"stopped on request of {state.stop_asked}")
    if attempt is None or attempt.ended is None:
        return _never_ran(state, now)
    ended = attempt.ended
    if attempt.stop_reason == "plateau":
        return Verdict(Outcome.STOPPED_EARLY, attempt.stop_detail or "validation had been flat")
    if ended.complete:
        note = "" if ended.rows else " (no metrics: neither the log nor a new file of its own holds any)"
        note = f" (metrics from {ended.metrics_from})" if ended.metrics_from else note
        if ended.evaluate_status is not None:
            note += " and was evaluated with the author's own code"
        if ended.evaluate_ran:
            note += (
                f", which unpickled what may have run code of the training: {listed(ended.evaluate_ran, 3)}"
            )
        if state.changed_files and (ended.evaluate_ran or ended.evaluate_status is None):
            files = ", ".join(state.changed_files)
            why = f"attempt {attempt.number} ran to its end with code that a model changed ({files}){note}"
            return Verdict(Outcome.SUCCEEDED_WITH_CHANGED_CODE, why)
        return Verdict(Outcome.SUCCEEDED, f"attempt {attempt.number} ran to its end{note}")
    found = attempt.diagnosis or Diagnosis("", None, "the cause is unknown")
    too_late_to_restart = found.transient and now >= state.deadline_at
    if ended.reason == "deadline" or too_late_to_restart:
        after = f" after {ended.reached}" if ended.reached else ""
        after += f": {ended.shortfall}" if ended.shortfall else ""
        is_nan, late = found.family == "numerics_nan", f"the time limit was reached{after}"
        return Verdict(Outcome.TIMED_OUT, found.cause if is_nan else late)
    return Verdict(Outcome.FAILED, f"attempt {attempt.number}: {found.cause}")


def _never_ran(state: ExperimentState, now: float) -> Verdict:
    if "launch" in state.denied:
        return Verdict(Outcome.CANCELLED, "a person did not approve the launch")
    if state.llm.gave_up:
        return Verdict(Outcome.CANNOT_RUN, state.llm.gave_up)
    if state.checked is not None and not state.checked.can_run:
        return Verdict(Outcome.CANNOT_RUN, "; ".join(state.checked.problems))
    if now >= state.deadline_at:
        return Verdict(Outcome.TIMED_OUT, "the time limit was reached before the training could start")
    return Verdict(Outcome.FAILED, "the training was never started")
