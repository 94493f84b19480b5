"""Which metric, step, attempt and level each number of a sentence belongs to.

In: a sentence, its numbers and mentions. Out: `Bound` numbers. What follows a number with only small words
between belongs to it; else what stands before it; "A is above B: 0.87 against 0.61" goes in order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.results.claims.going_together import (
    INTERVAL,
    in_order,
    is_other_side,
    is_step,
    joined,
    loose_end,
    pair_of,
    parent_of,
    which_end,
)
from harness.results.claims.quantity import Quantity
from harness.results.claims.reading import Bound, Mention
from harness.results.claims.types import Evidence

_AFTER = re.compile(
    r"[\s(\[`'\"]*(?:(?:at|in|on|for|with|under|using|of|by|from|when|after|its|the|a|an|was|were|is|reached|"
    r"measured|already|seen|over|→|setting|level|value|point|seed|mean|tasks|episodes|were|solved|passed|succeeded)(?![\w])[\s(`'\"=]*){0,5}"
)


_HAS_VALUE = re.compile(r"\s*(?:[=:<>≈]|of|is|was)\s*[+\-−]?[\d.]")
_UP_FROM = re.compile(r"\b(?:up|down)\s+from\s+(?:about\s+|~)?$", re.IGNORECASE)
_AFTER_METRIC = re.compile(
    r"[\s(`'\"-]*(?:(?:of|in|for|the|mean|final|training|validation|task|all)(?![\w])[\s`'\"(]*){0,3}"
)


def bind(text: str, found: list[Quantity], mentions: list[Mention], evidence: Evidence) -> list[Bound]:
    consumed: set[Mention] = set()
    bound: list[Bound] = []
    for index, quantity in enumerate(found):
        parent = parent_of(text, found, index)
        if parent is not None:
            end = which_end(text, found, index, parent)
            bound.append(replace(bound[parent], quantity=quantity, parent=parent, end=end, pair=None))
        else:
            bound.append(_Binding(text, found, index, mentions, evidence, consumed).bound(bound))
    return bound


@dataclass(frozen=True)
class _Binding:
    """One number on its way to what it belongs to. `consumed`: mentions that an earlier number has, and no
    later one."""

    text: str
    found: list[Quantity]
    index: int
    mentions: list[Mention]
    evidence: Evidence
    consumed: set[Mention]

    def bound(self, done: list[Bound]) -> Bound:
        text, found, index, quantity = self.text, self.found, self.index, self.found[self.index]
        gap = _Gap(text, found, quantity)
        end = loose_end(text, quantity)
        pair = pair_of(text, found, index, done) if not end else None
        is_joined = index > 0 and (pair is not None or joined(text, found, index - 1, index))
        earlier = done[index - 1] if is_joined else None
        when, step = self._when(gap)
        metric = self._metric(gap)
        attempt = gap.either(self._of("attempt"), self.consumed)
        subjects, firm, is_loose = self._subjects(gap)
        goes_on = earlier is not None and earlier.metric == metric and "metric" not in earlier.loose
        tight = {
            "metric": not end and (goes_on or gap.is_tight(metric, _OTHER_METRIC)),
            "when": gap.is_tight(when),
            "attempt": gap.is_tight(attempt),
            "subject": not is_loose,
        }
        is_back = _UP_FROM.search(text[: quantity.start])  # "0.30, down from 1.49" is of an earlier time
        is_of_first = pair is not None and when is not None and when.end <= found[pair].start
        if is_back or is_of_first:
            when = step = None
        loose = frozenset(axis for axis, is_tight in tight.items() if not is_tight)
        return Bound(quantity, metric, when, step, attempt, subjects, end, pair, loose=loose, firm=firm)

    def _of(self, axis: str) -> list[Mention]:
        return [mention for mention in self.mentions if mention.axis == axis]

    def _when(self, gap: _Gap) -> tuple[Mention | None, Mention | None]:
        """The time that the number is of, and the step where it is one."""
        whens = self._of("when")
        when = gap.following([m for m in whens if m.ids != {"moved"}], _AFTER)
        if when is not None:
            self.consumed.add(when)
            return when, when if is_step(when) else None
        when = gap.preceding([m for m in whens if m not in self.consumed])
        step = in_order(self.text, self.found, self.index, [m for m in whens if is_step(m)])
        when = step or when
        step = when if when and is_step(when) else None
        if when is not None and step is None and when.ids == {"moved"}:
            step = gap.preceding(
                [m for m in whens if m not in self.consumed and is_step(m) and len(m.ids) == 1]
            )
        return when, step

    def _metric(self, gap: _Gap) -> Mention | None:
        metrics = self._of("metric")
        return (
            gap.following(metrics, _AFTER_METRIC)
            or in_order(self.text, self.found, self.index, metrics)
            or gap.preceding(metrics)
        )

    def _subjects(self, gap: _Gap) -> tuple[tuple[frozenset[str], ...], tuple[frozenset[str], ...], bool]:
        """What the number may be of, what it firmly is of, and whether another reading is as plausible."""
        axes = {m.axis for m in self.mentions if m.axis.startswith("level") or m.axis in ("point", "seed")}
        subjects, firm, is_loose = [], [], False
        for axis in sorted(axes):
            there = self._of(axis)
            ordered = in_order(self.text, self.found, self.index, there)
            mention = ordered or gap.either(there, self.consumed)
            own = self._all(mention)
            if ordered is None and not (gap.is_tight(mention) and not gap.is_aside(mention, there)):
                is_loose = True
            elif mention is not None:
                firm.append(own)
            if mention is not None and is_other_side(self.text, self.found, self.index, there):
                rest = self.evidence.subjects.get("baseline", frozenset())
                if rest and not rest & own:
                    subjects.append(rest)
            elif mention is not None:
                subjects.append(own)
        return tuple(subjects), tuple(firm), is_loose

    def _all(self, mention: Mention | None) -> frozenset[str]:
        names = mention.ids if mention is not None else ()
        return frozenset().union(*(self.evidence.subjects.get(name, frozenset()) for name in names))


@dataclass(frozen=True)
class _Gap:
    """A number and the words around it."""

    text: str
    found: list[Quantity]
    quantity: Quantity

    def following(self, mentions: Sequence[Mention], pattern: re.Pattern[str]) -> Mention | None:
        """The first mention after the number with nothing but small words between."""
        end = self.quantity.end
        while interval := INTERVAL.match(self.text, end):
            end = interval.end()
        for mention in sorted(mentions, key=lambda mention: mention.start):
            between = self.text[end : mention.start].lower()
            if mention.start < end or not pattern.fullmatch(between):
                continue
            if "(" in between and _HAS_VALUE.match(self.text, mention.end):
                continue  # "9 % (adjusted p = 0.002)"
            return mention
        return None

    def preceding(self, mentions: Sequence[Mention]) -> Mention | None:
        before = [mention for mention in mentions if mention.end <= self.quantity.start]
        return max(before, key=lambda mention: mention.end, default=None)

    def is_tight(self, mention: Mention | None, loosens: re.Pattern[str] | None = None) -> bool:
        """Whether the sentence says firmly that the number belongs to the mention: it follows, or stands
        right before, in the same clause, with no other number between."""
        if mention is None:
            return False
        if mention.start >= self.quantity.end:
            return True
        between = self.text[mention.end : self.quantity.start]
        is_first = not any(mention.end <= one.start < self.quantity.start for one in self.found)
        return is_first and len(between) < 60 and not (loosens or _LOOSENS).search(between)

    def is_aside(self, mention: Mention | None, there: Sequence[Mention]) -> bool:
        """Whether the number stands in brackets behind the second of two: "A does not differ from B (1)"."""
        if mention is None or mention.end > self.quantity.start or self.quantity is not self.found[0]:
            return False
        between = self.text[mention.end : self.quantity.start]
        return between.strip() == "(" and any(m.end <= mention.start for m in there)

    def either(self, mentions: Sequence[Mention], consumed: set[Mention]) -> Mention | None:
        after = self.following(mentions, _AFTER)
        if after is not None:
            consumed.add(after)
            return after
        return self.preceding([mention for mention in mentions if mention not in consumed])


_OTHER_METRIC = re.compile(
    r"[;:]|\b(?:while|whereas|but|so|although)\b|,\s*(?:and|which|the|with|then)\b|"
    r"\b(?:against|versus|vs\.?|instead\s+of|compared\s+(?:with|to)|close\s+to)\s+(?:the\s+|its\s+|a\s+)?$",
    re.IGNORECASE,
)
_LOOSENS = re.compile(
    r"[;:]|\b(?:while|whereas|but|so|although)\b|,\s*(?:and|which|the|with|then)\b|"
    r"\b(?:against|versus|vs\.?|instead\s+of|rather\s+than|compared\s+(?:with|to)|than|from|close\s+to|above|below|over)"
    r"\s+(?:the\s+|its\s+|a\s+|about\s+|~)?$",
    re.IGNORECASE,
)
