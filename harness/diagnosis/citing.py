"""Which lines of a log are shown as evidence, as they stand there (cut at LONGEST characters)."""

from collections.abc import Iterable, Iterator, Sequence

from harness.diagnosis.ranking import INCIDENT_LINES, Candidate
from harness.diagnosis.types import Evidence, Fault, Log
from monitors.logs import Line

LONGEST = 1000
MOST_LINES = 14
MOST_OTHERS = 3
MOST_USEFUL = 30


def of_candidate(log: Log, best: Candidate, candidates: Sequence[Candidate]) -> tuple[Evidence, ...]:
    """The lines that name the cause, where it came from, and the same reported by others nearby."""
    if best.file:
        return tuple(
            Evidence(best.file, seen.line.number, seen.line.text[:LONGEST])
            for seen in log.rows
            if seen.line.number in best.evidence
        )
    fault = best.fault
    numbers = [*best.evidence, *_origin(fault)]
    if fault is not None and fault.chain:
        chained = (each for each in log.faults if each.chain == fault.chain and each is not fault)
        numbers += [line.number for each in chained for line in each.lines[:4]]
    alike = [
        each
        for each in candidates
        if each is not best and each.family == best.family and abs(each.line - best.line) <= INCIDENT_LINES
    ]
    numbers += [number for each in alike[:MOST_OTHERS] for number in each.evidence[:2]]
    return _cite(log, list(dict.fromkeys(numbers))[:MOST_LINES])


def of_fault(log: Log, fault: Fault) -> tuple[Evidence, ...]:
    """The lines in which it is named."""
    return _cite(log, [line.number for line in fault.lines[:3]])


def useful(log: Log, best: Candidate | None) -> tuple[Evidence, ...]:
    """The 30 lines most likely to help a reader where the cause is not known."""
    numbers = [*best.evidence, *_origin(best.fault)] if best is not None else []
    open_faults = [fault for fault in log.faults if not fault.handled]
    open_faults.sort(key=lambda fault: (not fault.type, fault.level not in ("fatal", "error"), -fault.line))
    for fault in open_faults[:8]:
        numbers += [*(line.number for line in fault.lines[:3]), *_origin(fault)]
    room = max(5, MOST_USEFUL - len(dict.fromkeys(numbers)))
    numbers += [line.number for line in log.last[-room:]]
    return _cite(log, list(dict.fromkeys(numbers))[:MOST_USEFUL])


def _origin(fault: Fault | None) -> list[int]:
    """The line of the innermost frame in the author's own code; where there is none, of the innermost."""
    if fault is None or not fault.frames:
        return []
    return [(fault.own_frame or fault.frames[-1]).line]


def _cite(log: Log, numbers: Iterable[int]) -> tuple[Evidence, ...]:
    texts = {line.number: line.text for line in _known_lines(log)}
    return tuple(
        Evidence(log.path.name, number, texts[number][:LONGEST])
        for number in sorted(set(numbers))
        if number in texts and texts[number].strip()
    )


def _known_lines(log: Log) -> Iterator[Line]:
    for fault in log.faults:  # first, as those in a record of JSON are only a part of their line
        yield from (Line(frame.line, frame.text) for frame in fault.frames)
    for fault in log.faults:
        yield from (*fault.lines, *fault.before, *fault.after)
    yield from (seen.line for seen in log.rows if not log.rows_file)
    yield from log.last
