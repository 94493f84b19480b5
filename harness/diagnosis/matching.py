"""Holds signatures against faults. In: a `Log` and a `Book`. Out: `Match`es, any number per fault.

Of a line only the first LONGEST_LINE characters are looked at: no failure is told further on, and patterns
take time that grows faster than a line does.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.diagnosis.signatures import Book
from harness.diagnosis.types import Clause, Fault, Log, Match, Signature

MOST_LINES = 8
LONGEST_LINE = 2000


def matches(log: Log, book: Book) -> list[Match]:
    """All matches, in the order of the faults' lines and of the book."""
    told = [_Told(fault) for fault in log.faults]
    return [match for each in told for match in _of_fault(each, told, book.signatures)]


@dataclass(frozen=True)
class _Told:
    """What is searched for one fault, its lines cut."""

    fault: Fault

    @cached_property
    def message(self) -> str:
        return _cut(self.fault.message)

    @cached_property
    def trace(self) -> str:
        return _cut(self.fault.trace)

    @cached_property
    def near(self) -> str:
        """The lines above, its own as they stand in the log and without prefixes, and those below."""
        before, own, after = (
            [line.text for line in lines] for lines in (self.fault.before, self.fault.lines, self.fault.after)
        )
        return _cut("\n".join((*before, *own, self.fault.message, *after)))


def _cut(text: str) -> str:
    if len(text) <= LONGEST_LINE:
        return text
    return "\n".join(line[:LONGEST_LINE] for line in text.split("\n"))


def _of_fault(told: _Told, all_told: Sequence[_Told], signatures: Iterable[Signature]) -> Iterator[Match]:
    """The signatures that hold for this fault."""
    for signature in signatures:
        for clause in signature.when:
            found = _holds(clause, told, all_told)
            if found is not None and not any(
                _holds(unless, told, all_told) is not None for unless in signature.unless
            ):
                yield Match(signature, told.fault, _captures(found), _evidence(found, told.fault))
                break


_Found = dict[str, re.Match[str]]


def _holds(clause: Clause, told: _Told, all_told: Sequence[_Told]) -> _Found | None:
    """What each condition of the clause found, None where one of them does not hold."""
    found: _Found = {}
    if clause.exception is not None:
        if not told.fault.type or not (hit := clause.exception.search(told.fault.type[:LONGEST_LINE])):
            return None
        found["exception"] = hit
    if clause.message is not None:
        if not (hit := clause.message.search(told.message)):
            return None
        found["message"] = hit
    if clause.frames is not None:
        if not (hit := clause.frames.search(told.trace)):
            return None
        found["frames"] = hit
    if clause.near is not None:
        if not (hit := clause.near.search(told.near)):
            return None
        found["near"] = hit
    if clause.elsewhere is not None:
        others = (other for other in all_told if other is not told)
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
