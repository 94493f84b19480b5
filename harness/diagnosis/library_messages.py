"""Faults that say a message which the bank knows, as matches like those of signatures.

Asked only for a fault that no signature explains, or only one that knows no more than its kind; the bank is
opened when there is such a fault. What only an exception's type decides is used where nothing else is known.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from harness.diagnosis import message_bank
from harness.diagnosis.matching import MOST_LINES, Match
from harness.diagnosis.message_bank import FoundMessage
from harness.diagnosis.ranking import CONSEQUENCES
from harness.diagnosis.signatures.schema import Clause, Pattern, Signature
from harness.diagnosis.types import Fault, Log

CAUSE = (
    "{said} (raised by {library}, in {file}, `{function}`[, when `{condition}`][; {values}]"
    "[; argument: {argument}])"
)
ADVICE = (
    "advise: [Give `{argument}` what the message asks for|Correct what the message names] {at}"
    "[; it was given {values}]."
)
LONGEST_SAID = 300
LONGEST_VALUE = 80
MOST_VALUES = 6


def matches(log: Log, explained: Iterable[Match]) -> list[Match]:
    """A match for each fault that says a known message and that none of these explains as well."""
    by_fault: dict[int, list[Match]] = defaultdict(list)
    for match in explained:
        by_fault[id(match.fault)].append(match)
    asked = (fault for fault in log.faults if _may_be_known(fault))
    vague = (_of_fault(fault, by_fault[id(fault)]) for fault in asked if _is_vague(by_fault[id(fault)]))
    return [match for match in vague if match is not None]


def _is_vague(found: Iterable[Match]) -> bool:
    """True if signatures know the kind of a failure only, and take it for the cause."""
    known = (match.signature for match in found)
    return all(
        each.role == "root" and each.family not in CONSEQUENCES and each.breadth != "specific"
        for each in known
    )


def _may_be_known(fault: Fault) -> bool:
    return bool(fault.type) or (fault.level in ("error", "fatal") and not fault.handled)


def _of_fault(fault: Fault, vague: Sequence[Match]) -> Match | None:
    """What the bank knows of a fault; with the remedies of those vague matches that name the same family."""
    said = fault.message.partition(": ")[2] if fault.type else fault.message
    found = message_bank.shipped().find(fault.type, said, [frame.path for frame in reversed(fault.frames)])
    if found is None:
        return None
    place = found.place
    ends_there = not fault.frames or place.is_in_package_of(fault.frames[-1].path)
    is_sure = place.sure and ends_there and bool(fault.type)
    if vague and not is_sure:
        return None
    agreeing = [match for match in vague if match.signature.family == place.family]
    signature = Signature(
        id=f"message_{found.message.id}",
        family=place.family,
        name=f"A message of {place.library}",
        cause=CAUSE,
        when=(Clause(message=Pattern(re.escape(found.message.parts[0][0].strip()))),),
        breadth="message" if is_sure else "kind_of_message",
        remedies=(*(remedy for match in agreeing for remedy in match.signature.remedies), ADVICE),
    )
    captures = {name: value for match in agreeing for name, value in match.captures.items()}
    evidence = tuple(line.number for line in fault.lines[:MOST_LINES])
    return Match(signature, fault, captures | _captures(found, said), evidence)


def _captures(found: FoundMessage, said: str) -> dict[str, str]:
    place = found.place
    return {
        "said": " ".join(said.split())[:LONGEST_SAID],
        "library": place.library,
        "file": place.file,
        "function": place.function or "<module>",
        "condition": place.condition,
        "values": _values(found),
        "argument": ", ".join(place.arguments),
    }


def _values(found: FoundMessage) -> str:
    """What stood in the holes, such as `num_heads=7`."""
    shown = [(name, value) for name, value in found.values.items() if 0 < len(value) <= LONGEST_VALUE]
    return ", ".join(f"{name}={value}" for name, value in shown[:MOST_VALUES])
