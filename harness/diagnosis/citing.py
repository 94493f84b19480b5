"""Which lines of a log are shown as evidence. In: the log and a candidate. Out: `Evidence`, lines as they
stand there (cut at LONGEST characters, never changed)."""

from collections.abc import Iterable, Iterator, Sequence

from harness.diagnosis.ranking import INCIDENT_LINES, Candidate
from harness.diagnosis.types import Evidence, Fault, Log
from monitors.logs import Line

LONGEST = 1000
MOST_LINES = 14
MOST_OTHERS = 3
MOST_USEFUL = 30
_LIBRARIES = ("site-packages", "dist-packages", "/usr/lib/python", "lib/python3", "<frozen")


def of_candidate(log: Log, best: Candidate, candidates: Sequence[Candidate]) -> tuple[Evidence, ...]:
    """The lines that name the cause, where it came from, and the same told by others nearby."""
    if best.file:
        return tuple(
            Evidence(best.file, seen.line.number, seen.line.text[:LONGEST])
            for seen in log.rows
            if seen.line.number in best.evidence
        )
    numbers = [*best.evidence, *(_origin(best.fault) if best.fault is not None else ())]
    numbers += [line for fault in _chained(log, best) for line in _lines(fault)[:4]]
    alike = [
        each
        for each in candidates
        if each is not best and each.family == best.family and abs(each.line - best.line) <= INCIDENT_LINES
    ]
    numbers += [number for each in alike[:MOST_OTHERS] for number in each.evidence[:2]]
    return _cite(log, list(dict.fromkeys(numbers))[:MOST_LINES])


def useful(log: Log, best: Candidate | None) -> tuple[Evidence, ...]:
    """The 30 lines most likely to help a reader where the cause is not known."""
    numbers = list(best.evidence) if best is not None else []
    numbers += _origin(best.fault) if best is not None and best.fault is not None else []
    told = [fault for fault in log.faults if not fault.handled]
    told.sort(key=lambda fault: (not fault.type, fault.level not in ("fatal", "error"), -fault.line))
    for fault in told[:8]:
        numbers += [*_lines(fault)[:3], *_origin(fault)]
    room = max(5, MOST_USEFUL - len(dict.fromkeys(numbers)))
    numbers += [line.number for line in log.last[-room:]]
    return _cite(log, list(dict.fromkeys(numbers))[:MOST_USEFUL])


def _lines(fault: Fault) -> list[int]:
    return [line.number for line in fault.lines]


def _chained(log: Log, best: Candidate) -> Iterator[Fault]:
    """The other exceptions of the same chain."""
    if best.fault is None or not best.fault.chain:
        return
    for fault in log.faults:
        if fault.chain == best.fault.chain and fault is not best.fault:
            yield fault


def _origin(fault: Fault) -> list[int]:
    """The innermost frame, and the innermost one in the author's own code."""
    own = [frame for frame in fault.frames if not any(part in frame.path for part in _LIBRARIES)]
    return [frame.line for frame in (*own[-1:], *fault.frames[-1:])]


def _cite(log: Log, numbers: Iterable[int]) -> tuple[Evidence, ...]:
    texts = {line.number: line.text for line in _known_lines(log)}
    return tuple(
        Evidence(log.path.name, number, texts[number][:LONGEST])
        for number in sorted(set(numbers))
        if number in texts and texts[number].strip()
    )


def _known_lines(log: Log) -> Iterator[Line]:
    for fault in log.faults:
        yield from (*fault.lines, *fault.before, *fault.after)
        yield from (Line(frame.line, frame.text) for frame in fault.frames)
    yield from (seen.line for seen in log.rows if not log.rows_file)
    yield from log.last
