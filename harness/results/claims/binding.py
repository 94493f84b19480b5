"""Which metric, step, attempt and level each number of a sentence belongs to.

In: a sentence, its numbers and mentions. Out: `Bound` numbers. What follows a number with only small words
between belongs to it; else what stands before it; "A is above B: 0.87 against 0.61" goes in order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.results.claims.quantities import Quantity
from harness.results.claims.reading import Bound, Mention
from harness.results.claims.types import Evidence

_AFTER = re.compile(
    r"[\s(\[`'\"]*(?:(?:at|in|on|for|with|under|using|of|by|from|when|after|its|the|a|an|was|were|is|reached|measured|already|seen|over|→|setting|level|value|"
    r"point|seed|mean)(?![\w])[\s(`'\"=]*){0,4}"
)


_UP_FROM = re.compile(r"\b(?:up|down)\s+from\s+(?:about\s+|~)?$", re.IGNORECASE)
_LOW_END = re.compile(r"\b(?:interval|ci|confidence)\b[^,;]{0,40}?\b(?:from|between|of|is|was|:)?\s*\(?$")
_HIGH_END = re.compile(
    r"(?:\b(?:interval|ci|confidence)\b|\[)[^;\]]{0,60}?\d\s?%?\s*(?:,|to|and|–|-)\s*[+\-−]?$"
)
_AFTER_METRIC = re.compile(
    r"[\s(`'\"-]*(?:(?:of|in|for|the|mean|final|training|validation|task|all)(?![\w])[\s`'\"(]*){0,3}"
)


_INTERVAL = re.compile(
    r"\s*(?:\(?(?:95\s?%\s*)?(?:CI|interval|t interval)?:?\s*)?[\[(]\s*[+\-−]?[\d.]+\s*(?:,|to|–|"
    r";)\s*[+\-−]?[\d.]+\s*[\])]\)?"
    r"|\s*±\s*[\d.]+",
    re.IGNORECASE,
)


def bind(text: str, found: list[Quantity], mentions: list[Mention], evidence: Evidence) -> list[Bound]:
    axes = sorted({m.axis for m in mentions if m.axis.startswith("level") or m.axis in ("point", "seed")})
    consumed: set[Mention] = set()
    bound: list[Bound] = []
    for index, quantity in enumerate(found):
        parent = _parent(text, found, index)
        if parent is not None:
            bound.append(
                replace(
                    bound[parent],
                    quantity=quantity,
                    parent=parent,
                    end=_which_end(text, found, index, parent),
                    pair=None,
                )
            )
            continue
        gap = _Gap(text, found, quantity)
        whens = [m for m in mentions if m.axis == "when"]
        when = gap.following([m for m in whens if m.ids != {"moved"}], _AFTER)
        if when is not None:
            consumed.add(when)
        step = when if when and is_step(when) else None
        if when is None:
            when = gap.preceding([m for m in whens if m not in consumed])
            step = _in_order(text, found, index, [m for m in whens if is_step(m)])
            when = step or when
            step = when if when and is_step(when) else None
            if when is not None and step is None and when.ids == {"moved"}:
                step = gap.preceding(
                    [m for m in whens if m not in consumed and is_step(m) and len(m.ids) == 1]
                )
        metrics = [m for m in mentions if m.axis == "metric"]
        metric = gap.following(metrics, _AFTER_METRIC) or gap.preceding(metrics)
        attempt = gap.either([m for m in mentions if m.axis == "attempt"], consumed)
        subjects = []
        for axis in axes:
            there = [m for m in mentions if m.axis == axis]
            mention = _in_order(text, found, index, there) or gap.either(there, consumed)
            if mention is not None and _is_other_side(text, found, index, there):
                rest = evidence.subjects.get("baseline", frozenset())
                own = frozenset().union(*(evidence.subjects.get(name, frozenset()) for name in mention.ids))
                if rest and not rest & own:
                    subjects.append(rest)
            elif mention is not None:
                subjects.append(
                    frozenset().union(*(evidence.subjects.get(name, frozenset()) for name in mention.ids))
                )
        pair = _pair(text, found, index, bound)
        if _UP_FROM.search(text[: quantity.start]):
            when = step = None  # "0.30, down from 1.49" goes back to an earlier value
        if pair is not None and when is not None and when.end <= found[pair].start:
            when = step = None  # it says when the first of the two was
        bound.append(
            Bound(quantity, metric, when, step, attempt, tuple(subjects), _loose_end(text, quantity), pair)
        )
    return bound


def is_step(mention: Mention) -> bool:
    return any(name.startswith("step:") for name in mention.ids)


@dataclass(frozen=True)
class _Gap:
    """A number and the words around it."""

    text: str
    found: list[Quantity]
    quantity: Quantity

    def following(self, mentions: Sequence[Mention], pattern: re.Pattern[str]) -> Mention | None:
        """The first mention after the number with nothing but small words between."""
        end = self.quantity.end
        while interval := _INTERVAL.match(self.text, end):
            end = interval.end()
        for mention in sorted(mentions, key=lambda mention: mention.start):
            if mention.start >= end and pattern.fullmatch(self.text[end : mention.start].lower()):
                return mention
        return None

    def preceding(self, mentions: Sequence[Mention]) -> Mention | None:
        before = [mention for mention in mentions if mention.end <= self.quantity.start]
        return max(before, key=lambda mention: mention.end, default=None)

    def either(self, mentions: Sequence[Mention], consumed: set[Mention]) -> Mention | None:
        after = self.following(mentions, _AFTER)
        if after is not None:
            consumed.add(after)
            return after
        return self.preceding([mention for mention in mentions if mention not in consumed])


_PAIRED = re.compile(
    r"\s*(?:\(|\[[^\]]*\])?\s*(?:,|against|versus|vs\.?|and|compared\s+(?:with|to)|rather\s+than|or|to|→|/|instead\s+of|over)\s*"
    r"(?:only\s+|just\s+|about\s+|~|and\s+|a\s+mean\s+of\s+)*",
    re.IGNORECASE,
)


def _in_order(text: str, found: list[Quantity], index: int, there: list[Mention]) -> Mention | None:
    """Of "A is above B: 0.87 against 0.61" the first number belongs to A, the second to B."""
    main = [i for i in range(len(found)) if _parent(text, found, i) is None]
    if index not in main:
        return None
    place = main.index(index)
    first = place
    while first > 0 and _joined(text, found, main[first - 1], main[first]):
        first -= 1
    last = place
    while last + 1 < len(main) and _joined(text, found, main[last], main[last + 1]):
        last += 1
    ahead = [m for m in there if m.end <= found[main[first]].start]
    ahead = list({m.ids: m for m in ahead}.values())
    behind = [m for m in there if m.start >= found[main[last]].end] if "respectively" in text.lower() else []
    for group in (ahead, behind):
        if last > first and len(group) == last - first + 1:
            return group[place - first]
    return None


def _is_other_side(text: str, found: list[Quantity], index: int, there: list[Mention]) -> bool:
    """Whether the number is what "0.70 against …" sets a named thing against, without naming it."""
    if index == 0 or len({m.ids for m in there}) != 1:
        return False
    between = text[found[index - 1].end : found[index].start]
    return re.fullmatch(r"\s*(?:against|versus|vs\.?|compared\s+(?:with|to))\s*", between) is not None


def _joined(text: str, found: list[Quantity], one: int, other: int) -> bool:
    end = found[one].end
    while interval := _INTERVAL.match(text, end):
        end = interval.end()
    return _PAIRED.fullmatch(text[end : found[other].start]) is not None


def _parent(text: str, found: list[Quantity], index: int) -> int | None:
    """The number whose interval this one is an end of: `0.87 [0.82, 0.91]`, `0.87 ± 0.02`."""
    for other in range(index - 1, max(-1, index - 3), -1):
        interval = _INTERVAL.match(text, found[other].end)
        if interval and found[other].end <= found[index].start < interval.end():
            return other
    return None


def _which_end(text: str, found: list[Quantity], index: int, parent: int) -> str:
    if "±" in text[found[index - 1].end : found[index].start]:
        return "half"
    return "low" if index == parent + 1 else "high"


def _loose_end(text: str, quantity: Quantity) -> str:
    """An end of an interval that stands by itself: "the 95 % interval is [0.1, 0.2]"."""
    ahead = text[: quantity.start].lower()
    if re.search(r"±\s*$", ahead):
        return "half"
    if re.search(r"\[\s*[+\-−]?$", ahead):
        return "low"
    if _HIGH_END.search(ahead):
        return "high"
    return "low" if _LOW_END.search(ahead) else ""


def _pair(text: str, found: list[Quantity], index: int, bound: list[Bound]) -> int | None:
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
