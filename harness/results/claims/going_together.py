"""Numbers that go together: "from A to B", "A, B and C", "A [low, high]", "A against B".

In: the numbers of a sentence and what it mentions. Out: which of them is an end of an interval,
the second of a pair, or one of a list that goes in the order of what is named before it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

from harness.results.claims.quantity import Quantity
from harness.results.claims.reading import Bound, Mention

_LOW_END = re.compile(
    r"\b(?:interval|ci|confidence)\b(?:(?!\b(?:exclud|includ|rose|fell|went|incr|decr|impr))[^,;]){0,40}?,?\b(?:from|between|of|is|was|:)?\s*\(?$"
)
_HIGH_END = re.compile(
    r"(?:\b(?:interval|ci|confidence)\b|\[)[^;\]]{0,60}?\d\s?%?\s*(?:,|to|and|–|-)\s*[+\-−]?$"
)
_FROM_TO = re.compile(r"\s*\([+\-−]?[\d.]+\s*(?:to|–)\s*[+\-−]?[\d.]+\)")
INTERVAL = re.compile(
    r"\s*(?:\(?(?:95\s?%\s*)?(?:CI|interval|t interval)?:?\s*)?[\[(]\s*[+\-−]?[\d.]+\s*(?:,|to|–|"
    r";)\s*[+\-−]?[\d.]+\s*[\])]\)?"
    r"|\s*±\s*[\d.]+",
    re.IGNORECASE,
)


def is_step(mention: Mention) -> bool:
    return any(name.startswith("step:") for name in mention.ids)


_RIGHT_BEHIND = r"[\s,(]*(?:at|for|in)?\s*"
_PAIRED = re.compile(
    r"\s*(?:\(|\[[^\]]*\])?\s*(?:,|against|versus|vs\.?|and|compared\s+(?:with|to)|rather\s+than|or|to|→|/|instead\s+of|over)\s*"
    r"(?:only\s+|just\s+|about\s+|~|and\s+|a\s+mean\s+of\s+)*",
    re.IGNORECASE,
)


def in_order(text: str, found: list[Quantity], index: int, there: list[Mention]) -> Mention | None:
    """Of "A is above B: 0.87 against 0.61" the first number belongs to A, the second to B."""
    main = [i for i in range(len(found)) if parent_of(text, found, i) is None]
    if index not in main:
        return None
    place = main.index(index)
    first = place
    while first > 0 and joined(text, found, main[first - 1], main[first]):
        first -= 1
    last = place
    while last + 1 < len(main) and joined(text, found, main[last], main[last + 1]):
        last += 1
    if last == first:
        return None
    begin, end = found[main[first]].start, found[main[last]].end
    ahead = list({m.ids: m for m in reversed(there) if m.end <= begin}.values())[::-1]
    if any(m.axis == "metric" for m in ahead) and not _is_coordinated(text, ahead):
        ahead = []
    behind = [m for m in there if m.start >= end]
    is_right_behind = (
        behind and behind[0].axis == "when" and re.fullmatch(_RIGHT_BEHIND, text[end : behind[0].start])
    )
    if behind and not ("respectively" in text.lower() or is_right_behind):
        behind = []
    for group in (ahead, behind, _one_by_one(ahead), _one_by_one(behind)):
        if len(group) == last - first + 1:
            return group[place - first]
    return None


def _is_coordinated(text: str, there: list[Mention]) -> bool:
    return all(_PAIRED.fullmatch(text[one.end : other.start]) for one, other in pairwise(there))


def _one_by_one(there: list[Mention]) -> list[Mention]:
    """ "steps 0, 40 and 80" as three mentions, in the order in which they are named."""
    return [
        replace(mention, ids=frozenset({f"step:{int(number)}"}))
        for mention in there
        if is_step(mention)
        for number in re.findall(r"\d+", mention.text)
    ]


def is_other_side(text: str, found: list[Quantity], index: int, there: list[Mention]) -> bool:
    """Whether the number is what "0.70 against …" sets a named thing against, without naming it."""
    if index == 0 or len({m.ids for m in there}) != 1:
        return False
    between = text[found[index - 1].end : found[index].start]
    return re.fullmatch(r"\s*(?:against|versus|vs\.?|compared\s+(?:with|to))\s*", between) is not None


def joined(text: str, found: list[Quantity], one: int, other: int) -> bool:
    end = found[one].end
    while interval := INTERVAL.match(text, end):
        end = interval.end()
    return _PAIRED.fullmatch(text[end : found[other].start]) is not None


def parent_of(text: str, found: list[Quantity], index: int) -> int | None:
    """The number whose interval this one is an end of: `0.87 [0.82, 0.91]`, `0.87 ± 0.02`."""
    for other in range(index - 1, max(-1, index - 3), -1):
        interval = INTERVAL.match(text, found[other].end)
        if interval and _FROM_TO.fullmatch(interval[0]) and not _holds(interval[0], found[other]):
            continue
        if interval and found[other].end <= found[index].start < interval.end():
            return other
    return None


def _holds(interval: str, quantity: Quantity) -> bool:
    """Whether a number lies in what stands behind it: "87.1 % (82.3 to 91.9)" has an interval, "fell by 80 %
    (2.0 to 0.4)" has none."""
    low, high = (float(end.replace("−", "-")) for end in re.findall(r"[\-−]?\d+(?:\.\d+)?", interval)[:2])
    scale = 0.01 if quantity.form in ("percent", "points") else 1.0
    return quantity.form != "ratio" and low * scale <= quantity.value <= high * scale


def which_end(text: str, found: list[Quantity], index: int, parent: int) -> str:
    if "±" in text[found[index - 1].end : found[index].start]:
        return "half"
    return "low" if index == parent + 1 else "high"


def loose_end(text: str, quantity: Quantity) -> str:
    """An end of an interval that stands by itself: "the 95 % interval is [0.1, 0.2]"."""
    ahead = text[: quantity.start].lower()
    if re.search(r"±\s*$", ahead):
        return "half"
    if re.search(r"\[\s*[+\-−]?$", ahead):
        return "low"
    if _HIGH_END.search(ahead):
        return "high"
    return "low" if _LOW_END.search(ahead) else ""


def pair_of(text: str, found: list[Quantity], index: int, bound: list[Bound]) -> int | None:
    """The number that this one is the "to" of."""
    if not re.search(
        r"(?:\bto|→|->|–)\s*(?:about|around|roughly|nearly|~|an?|some|only|\$)?\s*$",
        text[: found[index].start],
    ):
        return None
    for other in range(index - 1, -1, -1):
        if bound[other].parent is None:
            between = text[found[other].end : found[index].start]
            is_near = len(between) < 90 and not re.search(r"[;.]|\bwhile\b|\bwhereas\b", between)
            is_from = re.search(r"\bfrom\s+(?:an?\s+|about\s+|~|roughly\s+)?$", text[: found[other].start])
            return other if is_near and (is_from or len(between) < 25) else None
    return None
