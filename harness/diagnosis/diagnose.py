"""The cause of a training's end, with lines of its log as evidence.

The log is asked first; what it does not say (the process was killed, the machine went down) comes from the
end.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path

from harness.attempt import KILLED, AttemptEnd
from harness.diagnosis import citing, ends, library_messages, matching, ranking
from harness.diagnosis.ends import End
from harness.diagnosis.ranking import OF_UNKNOWN, Candidate
from harness.diagnosis.reading import read
from harness.diagnosis.reading.rows import MOST_NOT_FINITE, MOST_ROWS
from harness.diagnosis.signatures import SignatureCatalogue, load
from harness.diagnosis.types import (
    FAULTS,
    NOTHING_FAILED,
    UNKNOWN,
    Cause,
    Diagnosis,
    Evidence,
    Log,
    OtherFinding,
    SeenRow,
)
from monitors.files import AttemptFiles
from monitors.health import Alarm, assess
from monitors.logs import Line
from monitors.metrics import Row
from monitors.metrics_file import MetricTable

LAST_LINES = 30
MOST_ALSO = 6
SURE_OF_END = 0.9


def diagnose(
    files: AttemptFiles,
    ended: AttemptEnd | None,
    stop_reason: str | None = None,
    stop_detail: str = "",
    catalogue: SignatureCatalogue | None = None,
) -> Diagnosis:
    """The cause of the end described by `ended`, None where nothing is known of it. Raises
    SignatureError where no catalogue is given and a user's signature cannot be used."""
    catalogue = catalogue or load()
    log = read(files.pane_log, catalogue.words) if files.pane_log.exists() else Log(files.pane_log)
    if not log.rows:
        log = replace(log, rows=_rows(files.metrics), rows_file=files.metrics.name)
    found = _conclude(log, catalogue, ends.read(ended, stop_reason, stop_detail))
    sample = ends.out_of_memory(files.resources) if found.signature == KILLED else None
    if sample is None:
        return found
    return _diagnosis(log, ends.KILLED_WITHOUT_MEMORY, ends.LIKELY, evidence=(sample,))


def diagnose_log(
    path: Path, status: int | None = None, catalogue: SignatureCatalogue | None = None
) -> Diagnosis:
    """The cause that a log alone shows; `status`: what the command returned, where it is known. Raises
    OSError for a file that cannot be read, SignatureError for a user's signature that cannot."""
    catalogue = catalogue or load()
    end = ends.read(None if status is None else AttemptEnd(status=status))
    return _conclude(read(path, catalogue.words), catalogue, end)


def _conclude(log: Log, catalogue: SignatureCatalogue, end: End) -> Diagnosis:
    alarms = assess((seen.line.number, seen.row) for seen in log.rows)
    if end.is_final:
        return _of_end(log, end, alarms)
    known = matching.matches(log, catalogue)
    found = [*known, *library_messages.matches(log, known)]
    candidates = ranking.rank(log, found, alarms, succeeded=end.succeeded is True)
    best = candidates[0] if candidates else None
    if best is not None and _is_known(best, end):
        if end.succeeded is None and best.fault is not None and ranking.seems_over(best.fault, log):
            best = candidates[0] = replace(best, breadth="last_resort")
        evidence = citing.of_candidate(log, best, candidates)
        if (earlier := ranking.reported_before(log, best, candidates)) is not None:
            told = f"{best.cause} Another process had reported an error before: {earlier.said[0][:300]}"
            best = candidates[0] = replace(best, breadth="last_resort", cause=told)
            evidence = (*citing.of_fault(log, earlier), *evidence)
        best = replace(best, captures={**_root_of(best), **best.captures})
        return _diagnosis(log, best, ranking.confidence(candidates), candidates, evidence)
    if end.family != UNKNOWN:
        shown = citing.of_candidate(log, best, candidates) if best is not None else ()
        return _diagnosis(log, end, end.confidence, candidates, shown)
    if _nothing_failed(log, end, best):
        return _diagnosis(log, _well_ended(end, candidates), SURE_OF_END, candidates)
    text, captures = end.cause or _without_a_cause(log), {}
    raised = best if best is not None and best.fault is not None and best.fault.type else None
    if raised is not None and raised.fault is not None:  # an exception that no signature knows
        text, captures = raised.cause, _root_of(raised)
    cause = Cause(UNKNOWN, None, text, captures=captures)
    return _diagnosis(log, cause, OF_UNKNOWN, candidates, citing.useful(log, raised))


def _root_of(found: Candidate) -> dict[str, str]:
    """The words by which the same failure is known again, and the place in the author's own code."""
    if found.fault is None:
        return {}
    fault = found.fault
    words = {"type": fault.type, "said": fault.said[0], "message": fault.message[: citing.LONGEST]}
    return words | matching.of_own_code(fault)


def _nothing_failed(log: Log, end: End, best: Candidate | None) -> bool:
    """True if the command succeeded, or the training says that it came to its end and nothing says more."""
    is_open = best is not None and best.strength >= 0
    return not is_open and (end.succeeded or (end.succeeded is None and ranking.says_done(log)))


def _well_ended(end: End, candidates: Sequence[Candidate]) -> Cause:
    how = end.cause or "The training says at its end that it is done"
    got_over = ", and what its log reports it got over" if candidates else ", and its log tells of no failure"
    return Cause(NOTHING_FAILED, None, f"{how}{got_over}.")


def _without_a_cause(log: Log) -> str:
    """What a log says in which no cause was found, where nothing is known of the end."""
    if any(fault.level in FAULTS and not fault.handled for fault in log.faults):
        return "The log reports errors, but none that is known to end a training."
    return "Nothing in the log tells of a failure."


def _of_end(log: Log, end: End, alarms: Iterable[Alarm]) -> Diagnosis:
    """The cause where the end says all. A training whose values stay NaN only waits for its time limit, or
    for us to stop it: then the rows that show it are the evidence."""
    lost = (alarm for alarm in alarms if alarm.family == "numerics_nan" and not alarm.passed)
    alarm = next(lost, None) if end.signature in (ends.DEADLINE, ends.NOT_FINITE) else None
    if alarm is None:
        return _diagnosis(log, end, SURE_OF_END)
    found = ranking.of_alarm(alarm, log.rows_file)
    cause = f"{found.cause}. {end.cause}" if end.signature == ends.DEADLINE else end.cause
    found = replace(found, signature=ends.NOT_FINITE, cause=cause)
    return _diagnosis(log, found, SURE_OF_END, evidence=citing.of_candidate(log, found, ()))


def _is_known(best: Candidate, end: End) -> bool:
    """True if the log's cause goes before the end's: a signal from outside is the cause of what processes
    say when they are ended; a crash is their own."""
    if best.family == UNKNOWN or best.strength < 0:
        return False
    was_ended = end.family in ("worker_died_opaque", "time_limit")
    is_why = was_ended and best.family in ("hang_no_output", "user_interrupt")
    says_more = best.family not in ranking.CONSEQUENCES or end.family == "native_crash" or is_why
    return end.family == UNKNOWN or (best.role == "root" and says_more)


def _diagnosis(
    log: Log,
    cause: Cause,
    confidence: float,
    candidates: Sequence[Candidate] = (),
    evidence: tuple[Evidence, ...] = (),
) -> Diagnosis:
    same = {each.name: getattr(cause, each.name) for each in fields(Cause)}
    only_nominated = isinstance(cause, Candidate) and cause.only_nominated
    if only_nominated:
        same["cause"] = f"Probably: {cause.cause}"
    last = (
        Evidence(log.path.name, line.number, line.text[: citing.LONGEST]) for line in log.last[-LAST_LINES:]
    )
    also = _also(candidates, cause)
    return Diagnosis(
        **same,
        evidence=evidence,
        last_lines=tuple(last),
        confidence=confidence,
        only_nominated=only_nominated,
        also=also,
    )


def _also(candidates: Iterable[Candidate], cause: Cause) -> tuple[OtherFinding, ...]:
    """What else was found: one per signature, what followed from the cause included."""
    found: dict[tuple[str, str | None], OtherFinding] = {}
    for each in candidates:
        key = (each.family, each.signature)
        if each.family != UNKNOWN and key != (cause.family, cause.signature):
            found.setdefault(key, OtherFinding(*key, each.cause, each.line, each.role))
    return tuple(found.values())[:MOST_ALSO]


def _rows(metrics: Path) -> tuple[SeenRow, ...]:
    """The rows of a training that does not print them: all of few, of many evenly so many, those that are not
    finite among them."""
    table = MetricTable.read(metrics)
    step, odd = max(1, math.ceil(len(table) / MOST_ROWS)), 0
    kept: dict[int, Row] = {}
    for index, (line, row) in enumerate(table.rows()):
        is_odd = odd < MOST_NOT_FINITE and not all(map(math.isfinite, row.values.values()))
        odd += is_odd
        if is_odd or index % step == 0 or index == len(table) - 1:
            kept[line] = row
    try:
        with metrics.open(encoding="utf-8", errors="replace") as file:
            texts = {number: text.rstrip("\n") for number, text in enumerate(file, start=1) if number in kept}
    except OSError:
        return ()
    return tuple(SeenRow(Line(number, text), kept[number]) for number, text in texts.items())
