"""Holds signatures against faults.

Of a line only the first LONGEST_LINE characters are looked at: no failure is named further on, and patterns
take time that grows faster than a line does.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.diagnosis.signatures import SignatureCatalogue
from harness.diagnosis.signatures.index import ClauseIndex
from harness.diagnosis.signatures.schema import Clause, Signature
from harness.diagnosis.types import Fault, Log
from harness.wording import filled

MOST_LINES = 8
LONGEST_LINE = 2000
LONGEST_CODE = 300
GIVEN = frozenset({"place", "code"})
"""What a cause may name without a capture of its patterns."""
_Found = dict[str, re.Match[str]]
"""What each condition of a clause found."""


@dataclass(frozen=True)
class Match:
    """A signature that holds for a fault. `captures`: named groups of its patterns. `evidence`: numbers of
    lines in which they were found, the naming line first."""

    signature: Signature
    fault: Fault
    captures: Mapping[str, str]
    evidence: tuple[int, ...]

    @property
    def cause(self) -> str:
        """The signature's cause, captures filled in."""
        return filled(self.signature.cause, self.captures)


def matches(log: Log, catalogue: SignatureCatalogue) -> list[Match]:
    """All matches, in the order of the faults' lines and of the catalogue."""
    texts = [_Texts(fault) for fault in log.faults]
    _join_chains(texts)
    return [match for each in texts for match in _telling(list(_of_fault(each, texts, catalogue.clauses)))]


def _telling(found: Sequence[Match]) -> Sequence[Match]:
    """What only nominates a fault counts where nothing knows it exactly; of last resorts the first, and only
    where nothing else is known."""
    known = [match for match in found if match.signature.breadth == "specific"]
    return known or [match for match in found if match.signature.breadth != "last_resort"] or found[:1]


def of_own_code(fault: Fault) -> dict[str, str]:
    """Where in the author's own code it came from, and the line that stands there (`GIVEN`)."""
    frame = fault.own_frame
    if frame is None:
        return {}
    return {"place": frame.place} | ({"code": frame.code.strip()[:LONGEST_CODE]} if frame.code else {})


def _join_chains(texts: Sequence["_Texts"]) -> None:
    """Let each exception know the frames of those that it led to: they tell what it was raised for."""
    for each in texts:
        if each.fault.chain:
            chain = (other for other in texts if other.fault.chain == each.fault.chain)
            later = [other.frames for other in chain if other.fault.depth > each.fault.depth]
            each.context = "\n".join((*later, each.frames))


class _Texts:
    """What is searched for one fault, by the names of a clause's conditions; lines are cut."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.exception = _cut(fault.type)
        self.message = _cut(fault.message)
        self.frames = _cut(fault.trace)
        self.context = self.frames

    @cached_property
    def near(self) -> str:
        """The lines above, its own as they stand in the log and without prefixes, and those below."""
        above = (line.text for line in (*self.fault.before, *self.fault.lines))
        return _cut("\n".join((*above, self.fault.message, *(line.text for line in self.fault.after))))


def _cut(text: str) -> str:
    if len(text) <= LONGEST_LINE:
        return text
    return "\n".join(line[:LONGEST_LINE] for line in text.split("\n"))


def _of_fault(texts: _Texts, all_texts: Sequence[_Texts], index: ClauseIndex) -> Iterator[Match]:
    """The signatures that hold for this fault."""
    for signature, clauses in index.candidates(texts.exception, texts.message, texts.frames):
        held = (found for clause in clauses if (found := _holds(clause, texts, all_texts)))
        for found in held:
            if not any(_holds(unless, texts, all_texts, "context") for unless in signature.unless):
                groups = [item for hit in found.values() for item in hit.groupdict().items()]
                captures = of_own_code(texts.fault)
                captures |= {name: text for name, text in groups if text is not None}
                yield Match(signature, texts.fault, captures, _evidence(found, texts.fault))
                break


def _holds(
    clause: Clause, texts: _Texts, all_texts: Sequence[_Texts], frames: str = "frames"
) -> _Found | None:
    """What each condition of the clause found, None where one of them does not hold. `frames`: which of
    its frames are searched, its own or those of the whole chain."""
    found: _Found = {}
    for name in ("exception", "message", "frames", "near"):
        pattern = getattr(clause, name)
        if pattern is None:
            continue
        text = getattr(texts, frames if name == "frames" else name)
        hit = pattern.search(text) if name != "exception" or texts.fault.type else None
        if hit is None:
            return None
        found[name] = hit
    if (pattern := clause.elsewhere) is not None:
        others = (other.message for other in all_texts if other is not texts)
        hit = next((hit for other in others if (hit := pattern.search(other))), None)
        if hit is None:
            return None
        found["elsewhere"] = hit
    return found


def _evidence(found: _Found, fault: Fault) -> tuple[int, ...]:
    """The naming line, the lines of the message, and the frame or neighbour where something was found."""
    numbers = [line.number for line in fault.lines[:MOST_LINES]]
    if (hit := found.get("frames")) is not None:
        numbers += [frame.line for frame in fault.frames if _touches(hit, frame.stated, frame.code)][:2]
    if (hit := found.get("near")) is not None:
        numbers += [line.number for line in (*fault.before, *fault.after) if _touches(hit, line.text)][:2]
    return tuple(dict.fromkeys(numbers))


def _touches(hit: re.Match[str], *texts: str) -> bool:
    parts = [part.strip() for part in hit[0].split("\n") if part.strip()]
    return any(part in text for part in parts for text in texts)
