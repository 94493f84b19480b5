"""The cause of an attempt's end, with lines of the log as evidence.

In: the attempt's folder, its exit record, and why we stopped it, if we did. Out: `Diagnosis`. What the
process itself cannot tell (it was killed, the machine went down) comes from the exit record; everything
else from the log.
"""

import re
import signal
from collections import deque
from dataclasses import asdict, dataclass
from typing import Any

from harness.diagnosis import tracebacks
from harness.diagnosis.signatures import Signature, load
from monitors.files import AttemptFiles
from monitors.logs import LogReader, is_progress_bar
from monitors.metrics import parse_line

LINES_KEPT = 20_000
LAST_LINES = 30
AFTER_AN_ERROR = "after the error in line"
NOT_FINITE = re.compile(r"\b(?:nan|inf)\b|not finite|non-finite", re.IGNORECASE)


@dataclass(frozen=True)
class Evidence:
    """A line of a file in the attempt's folder; `line` counts from 1."""

    file: str
    line: int
    text: str


@dataclass(frozen=True)
class Diagnosis:
    """Why an attempt ended. `signature` is None when the failure is not a known one; `wait_s` before a
    restart."""

    family: str
    signature: str | None
    cause: str
    transient: bool
    evidence: tuple[Evidence, ...]
    last_lines: tuple[Evidence, ...]
    wait_s: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def diagnose(
    files: AttemptFiles, ended: dict[str, Any], stop_reason: str | None = None, stop_detail: str = ""
) -> Diagnosis:
    """The cause of the end described by `ended` (the exit record, or {"reason": "lost", …})."""
    lines = _tail_of_log(files)
    last = tuple(Evidence("pane.log", number, text) for number, text in _useful(lines))
    family, signature, cause, transient, evidence, wait_s = _cause(lines, ended, stop_reason, stop_detail)
    return Diagnosis(family, signature, cause, transient, evidence, last, wait_s)


_Cause = tuple[str, str | None, str, bool, tuple[Evidence, ...], float]


def _cause(
    lines: list[tuple[int, str]], ended: dict[str, Any], stop_reason: str | None, stop_detail: str
) -> _Cause:
    from_exit = _stopped(stop_reason, stop_detail) if stop_reason is not None else _from_exit(ended)
    if from_exit is not None:
        return from_exit
    block = tracebacks.root(tracebacks.find(lines))
    known = _known_failure(lines, block)
    if known is not None:
        signature, line = known
        return signature.family, signature.id, signature.cause, signature.transient, (line,), signature.wait_s
    if block is not None:
        where = block.frames[-1]
        evidence = (Evidence("pane.log", *where), Evidence("pane.log", block.line, block.exception))
        return "unknown", None, f"The training raised {block.exception}", False, evidence, 0.0
    return "unknown", None, _how_it_ended(ended), False, (), 0.0


def _stopped(reason: str, detail: str) -> _Cause | None:
    """An end that we made ourselves: what was seen before it is the cause; None where the log tells it."""
    if reason != "fatal_error":
        text = f"The harness stopped the attempt: {reason}."
        return "hang_no_output", reason, text, False, (), 0.0
    text = f"The harness stopped the attempt because it could not recover: {detail or 'no reason was kept'}."
    if AFTER_AN_ERROR in detail:
        return None
    if NOT_FINITE.search(detail):
        return "numerics_nan", "values_not_finite", text, False, (), 0.0
    return "hang_no_output", "no_output", text, False, (), 0.0


def _from_exit(ended: dict[str, Any]) -> _Cause | None:
    """Ends whose cause the log cannot tell."""
    reason, status = ended.get("reason"), ended.get("status")
    if reason == "lost":
        how = ended.get("detail", "no exit record")
        text = f"The machine or the supervisor went down with the training ({how})."
        return "worker_died_opaque", "supervisor_lost", text, True, (), 0.0
    if ended.get("shortfall"):
        text = f"The training failed although it seemed to end well: {ended['shortfall']}."
        return "silent_bad_metrics", "incomplete", text, False, (), 0.0
    if reason == "deadline":
        return "time_limit", "deadline", "The time limit of the experiment was reached.", False, (), 0.0
    if reason == "prepare_failed":
        status = ended.get("prepare_status")
        text = f"The prepare command ended with status {status}; the training was not started."
        return "config_error", "prepare_failed", text, False, (), 0.0
    if reason == "could_not_start":
        return "path_not_found", "could_not_start", "The launch command could not be started.", False, (), 0.0
    if ended.get("signal") in (signal.SIGTERM, signal.SIGHUP) or status in (
        128 + signal.SIGTERM,
        128 + signal.SIGHUP,
    ):
        text = "The training was ended from outside by SIGTERM or SIGHUP, as at a pre-emption or a shutdown."
        return "worker_died_opaque", "terminated_from_outside", text, True, (), 0.0
    return None


def _known_failure(
    lines: list[tuple[int, str]], block: tracebacks.Traceback | None
) -> tuple[Signature, Evidence] | None:
    """The signature of the root exception when there is one, else of the last lines of the log."""
    if block is not None:
        candidates = [(block.line, block.exception)]
    else:
        candidates = _useful(lines)
    for number, text in candidates:
        for signature in load():
            if signature.matches(text):
                return signature, Evidence("pane.log", number, text)
    return None


def _how_it_ended(ended: dict[str, Any]) -> str:
    status, number = ended.get("status"), ended.get("signal")
    if number is not None:
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        return f"The training was killed by {name}."
    return f"The training ended with status {status} and printed no traceback."


def _useful(lines: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """The last lines that can tell something: no blanks, no progress bars, of the metric rows the last."""
    told = [(number, text) for number, text in lines if text.strip() and not is_progress_bar(text)]
    earlier_rows = set([number for number, text in told if parse_line(text) is not None][:-1])
    return [(number, text) for number, text in told if number not in earlier_rows][-LAST_LINES:]


def _tail_of_log(files: AttemptFiles) -> list[tuple[int, str]]:
    """The last LINES_KEPT lines of pane.log with their numbers; [] when there is no log."""
    kept: deque[tuple[int, str]] = deque(maxlen=LINES_KEPT)
    if files.pane_log.exists():
        reader = LogReader(files.pane_log)
        kept.extend((line.number, line.text) for line in reader.read(final=True))
        while not reader.at_end:
            kept.extend((line.number, line.text) for line in reader.read(final=True))
    return list(kept)
