"""The cause of a training's end, with lines of its log as evidence.

In: a log, or an attempt's folder with its exit record and why we stopped it, if we did. Out: `Diagnosis`. The
log is asked first; what it cannot tell (the process was killed, the machine went down) comes from the end.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.diagnosis import citing, ends, machine, matching, ranking
from harness.diagnosis.confidence import LEAST, OF_UNKNOWN, confidence
from harness.diagnosis.ends import End
from harness.diagnosis.ranking import Candidate
from harness.diagnosis.reading import read
from harness.diagnosis.signatures import Book, load
from harness.diagnosis.types import UNKNOWN, Also, Diagnosis, Evidence, Log, SeenRow
from monitors.files import AttemptFiles
from monitors.health import Alarm, assess
from monitors.logs import Line
from monitors.metrics import Row
from monitors.metrics_file import read_metrics

LAST_LINES = 30
MOST_ALSO = 6
SURE_OF_END = 0.9
LIKELY_END = 0.6


def diagnose(
    files: AttemptFiles,
    ended: Mapping[str, Any],
    stop_reason: str | None = None,
    stop_detail: str = "",
    book: Book | None = None,
) -> Diagnosis:
    """The cause of the end described by `ended` (the exit record, or {"reason": "lost", …}). Raises
    SignatureError where `book` is not given and a user's signature cannot be used."""
    book = book or load()
    log = read(files.pane_log, book.words) if files.pane_log.exists() else Log(files.pane_log)
    end = ends.read(ended, stop_reason, stop_detail)
    if not log.rows:
        log = replace(log, rows=_rows(files.metrics), rows_file=files.metrics.name)
    found = _conclude(log, book, end)
    sample = machine.out_of_memory(files.resources) if found.signature == ends.KILLED else None
    if sample is None:
        return found
    return replace(_from_end(log, ends.KILLED_WITHOUT_MEMORY, (), LIKELY_END), evidence=(sample,))


def diagnose_log(path: Path, status: int | None = None, book: Book | None = None) -> Diagnosis:
    """The cause that a log alone tells; `status`: what the command returned, where it is known. Raises
    OSError for a file that cannot be read, SignatureError for a user's signature that cannot."""
    book = book or load()
    return _conclude(read(path, book.words), book, ends.read({} if status is None else {"status": status}))


def _conclude(log: Log, book: Book, end: End) -> Diagnosis:
    if end.is_final:
        return _from_end(log, end, (), SURE_OF_END)
    candidates = ranking.rank(log, matching.matches(log, book), _alarms(log))
    best = candidates[0] if candidates and candidates[0].strength >= LEAST else None
    if best is not None and best.family != UNKNOWN and not _end_knows_better(end, best):
        return _from_log(log, candidates)
    if end.family != UNKNOWN:
        return _from_end(log, end, candidates, LIKELY_END)
    return _unknown(log, end, candidates)


def _unknown(log: Log, end: End, candidates: Sequence[Candidate]) -> Diagnosis:
    """The exception that nobody knows, or nothing at all; with what makes it known again."""
    raised = next((each.fault for each in candidates[:1] if each.fault is not None and each.fault.type), None)
    best = candidates[0] if raised is not None else None
    cause = best.cause if best is not None else end.cause or "Nothing in the log tells of a failure."
    captures = {} if raised is None else {"type": raised.type, "said": raised.said[0]}
    return Diagnosis(
        UNKNOWN,
        None,
        cause,
        False,
        citing.useful(log, best),
        _last(log),
        confidence=OF_UNKNOWN,
        captures=captures,
        also=_also(candidates),
    )


def _rows(metrics: Path) -> tuple[SeenRow, ...]:
    """The rows of a training that does not print them."""
    try:
        records = read_metrics(metrics)
        lines = metrics.read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError):
        return ()
    return tuple(
        SeenRow(Line(number, text), Row(record["step"], record["values"]))
        for number, (record, text) in enumerate(zip(records, lines, strict=False), start=1)
    )


def _alarms(log: Log) -> list[Alarm]:
    return assess((seen.line.number, seen.row) for seen in log.rows)


def _end_knows_better(end: End, best: Candidate) -> bool:
    """Whether the end of the process tells more than the best of the log: a signal from outside is the cause
    of what the processes say when they are ended."""
    return end.family != UNKNOWN and (best.role != "root" or best.family in ranking.CONSEQUENCES)


def _from_log(log: Log, candidates: Sequence[Candidate]) -> Diagnosis:
    best = candidates[0]
    return Diagnosis(
        best.family,
        best.signature,
        best.cause,
        best.transient,
        citing.of_candidate(log, best, candidates),
        _last(log),
        best.wait_s,
        confidence(candidates),
        dict(best.captures),
        best.remedies,
        _also(candidates, best),
    )


def _from_end(log: Log, end: End, candidates: Sequence[Candidate], confidence: float) -> Diagnosis:
    """What the end of the process tells, where the log does not tell more."""
    return Diagnosis(
        end.family,
        end.signature,
        end.cause,
        end.transient,
        (),
        _last(log),
        confidence=confidence,
        remedies=end.remedies,
        also=_also(candidates),
    )


def _last(log: Log) -> tuple[Evidence, ...]:
    return tuple(Evidence(log.path.name, line.number, line.text) for line in log.last[-LAST_LINES:])


def _also(candidates: Iterable[Candidate], best: Candidate | None = None) -> tuple[Also, ...]:
    """What else was found: one per signature, what followed from the cause included."""
    found: dict[tuple[str, str | None], Also] = {}
    told = (best.family, best.signature) if best is not None else None
    for each in candidates:
        if each.family != UNKNOWN and (each.family, each.signature) != told:
            also = Also(each.family, each.signature, each.cause, each.line, each.role)
            found.setdefault((each.family, each.signature), also)
    return tuple(found.values())[:MOST_ALSO]
