"""The cause of a training's end, with lines of its log as evidence.

In: a log, or an attempt's folder with its exit record and why we stopped it, if we did. Out: `Diagnosis`. The
log is asked first; what it cannot tell (the process was killed, the machine went down) comes from the end.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from harness.attempt import AttemptEnd
from harness.diagnosis import citing, ends, matching, ranking
from harness.diagnosis.ends import End
from harness.diagnosis.ranking import OF_UNKNOWN, Candidate, confidence
from harness.diagnosis.reading import read
from harness.diagnosis.signatures import SignatureCatalogue, load
from harness.diagnosis.types import UNKNOWN, Diagnosis, Evidence, Log, OtherFinding, SeenRow
from monitors.files import AttemptFiles
from monitors.health import assess
from monitors.logs import Line
from monitors.metrics import Row
from monitors.metrics_file import read_metrics

LAST_LINES = 30
MOST_ALSO = 6
SURE_OF_END = 0.9
LIKELY_END = 0.6


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
    end = ends.read(ended, stop_reason, stop_detail)
    if not log.rows:
        log = replace(log, rows=_rows(files.metrics), rows_file=files.metrics.name)
    found = _conclude(log, catalogue, end)
    sample = ends.out_of_memory(files.resources) if found.signature == ends.KILLED else None
    if sample is None:
        return found
    return replace(_from_end(log, ends.KILLED_WITHOUT_MEMORY, (), LIKELY_END), evidence=(sample,))


def diagnose_log(
    path: Path, status: int | None = None, catalogue: SignatureCatalogue | None = None
) -> Diagnosis:
    """The cause that a log alone tells; `status`: what the command returned, where it is known. Raises
    OSError for a file that cannot be read, SignatureError for a user's signature that cannot."""
    catalogue = catalogue or load()
    end = ends.read(None if status is None else AttemptEnd(status=status))
    return _conclude(read(path, catalogue.words), catalogue, end)


def _conclude(log: Log, catalogue: SignatureCatalogue, end: End) -> Diagnosis:
    if end.is_final:
        return _from_end(log, end, (), SURE_OF_END)
    alarms = assess((seen.line.number, seen.row) for seen in log.rows)
    candidates = ranking.rank(log, matching.matches(log, catalogue), alarms)
    best = candidates[0] if candidates else None
    if best is not None and best.strength >= 0 and best.family != UNKNOWN:
        # A signal from outside is the cause of what the processes say when they are ended.
        says_less = best.role != "root" or best.family in ranking.CONSEQUENCES
        if end.family == UNKNOWN or not says_less:
            return _from_log(log, candidates)
    return (
        _unknown(log, end, candidates)
        if end.family == UNKNOWN
        else _from_end(log, end, candidates, LIKELY_END)
    )


def _unknown(log: Log, end: End, candidates: Sequence[Candidate]) -> Diagnosis:
    """The exception that no signature knows, or nothing at all; with what makes it known again."""
    best = candidates[0] if candidates else None
    raised = best.fault if best is not None and best.fault is not None and best.fault.type else None
    cause = best.cause if best is not None and raised else end.cause
    return Diagnosis(
        UNKNOWN,
        None,
        cause or "Nothing in the log tells of a failure.",
        False,
        citing.useful(log, best if raised else None),
        _last(log),
        confidence=OF_UNKNOWN,
        captures={"type": raised.type, "said": raised.said[0]} if raised else {},
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


def _also(candidates: Iterable[Candidate], best: Candidate | None = None) -> tuple[OtherFinding, ...]:
    """What else was found: one per signature, what followed from the cause included."""
    found: dict[tuple[str, str | None], OtherFinding] = {}
    cause = (best.family, best.signature) if best is not None else None
    for each in candidates:
        key = (each.family, each.signature)
        if each.family != UNKNOWN and key != cause:
            found.setdefault(key, OtherFinding(*key, each.cause, each.line, each.role))
    return tuple(found.values())[:MOST_ALSO]
