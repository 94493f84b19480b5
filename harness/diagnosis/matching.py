"""Holds signatures against faults. In: a `Log` and a `Book`. Out: `Match`es, any number per fault."""

import re
from collections.abc import Iterable, Iterator

from harness.diagnosis.signatures import Book
from harness.diagnosis.types import Clause, Fault, Log, Match, Signature

MOST_LINES = 8


def matches(log: Log, book: Book) -> list[Match]:
    """All matches, in the order of the faults' lines and of the book."""
    return [match for fault in log.faults for match in of_fault(fault, log, book.signatures)]


def of_fault(fault: Fault, log: Log, signatures: Iterable[Signature]) -> Iterator[Match]:
    """The signatures that hold for this fault."""
    for signature in signatures:
        for clause in signature.when:
            found = _holds(clause, fault, log)
            if found is not None and not any(
                _holds(unless, fault, log) is not None for unless in signature.unless
            ):
                yield Match(signature, fault, _captures(found), _evidence(found, fault))
                break


_Found = dict[str, re.Match[str]]


def _holds(clause: Clause, fault: Fault, log: Log) -> _Found | None:
    """What each condition of the clause found, None where one of them does not hold."""
    found: _Found = {}
    if clause.exception is not None:
        if not fault.type or not (hit := clause.exception.search(fault.type)):
            return None
        found["exception"] = hit
    for name, pattern in (("message", clause.message), ("frames", clause.frames)):
        if pattern is not None:
            text = fault.message if name == "message" else fault.trace
            if not (hit := pattern.search(text)):
                return None
            found[name] = hit
    if clause.near is not None:
        own = (line.text for line in fault.lines)
        before, after = (line.text for line in fault.before), (line.text for line in fault.after)
        if not (hit := clause.near.search("\n".join((*before, *own, fault.message, *after)))):
            return None
        found["near"] = hit
    if clause.elsewhere is not None:
        others = (other for other in log.faults if other is not fault)
        hit = next((hit for other in others if (hit := clause.elsewhere.search(other.message))), None)
        if hit is None:
            return None
        found["elsewhere"] = hit
    return found


def _captures(found: _Found) -> dict[str, str]:
    return {
        name: text for hit in found.values() for name, text in hit.groupdict().items() if text is not None
    }


def _evidence(found: _Found, fault: Fault) -> tuple[int, ...]:
    """The naming line, the lines of the message, and the frame or neighbour where something was found."""
    numbers = [line.number for line in fault.lines[:MOST_LINES]]
    if (hit := found.get("frames")) is not None:
        numbers += [frame.line for frame in fault.frames if _touches(hit, frame.text, frame.code)][:2]
    if (hit := found.get("near")) is not None:
        numbers += [line.number for line in (*fault.before, *fault.after) if _touches(hit, line.text)][:2]
    return tuple(dict.fromkeys(numbers))


def _touches(hit: re.Match[str], *texts: str) -> bool:
    said = [part for part in hit[0].split("\n") if part.strip()]
    return any(part.strip() in text for part in said for text in texts if text)
