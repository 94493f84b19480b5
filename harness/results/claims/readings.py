"""The ways in which a number of a sentence may be meant.

In: a number bound to what stands next to it. Out: the same number bound to the other things that the sentence
(or the one before) names, on the axes where it does not say firmly which it is. A sentence is wrong only
where no reading of it is borne out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from harness.results.claims.binding import is_step
from harness.results.claims.reading import Bound, Mention, Sentence
from harness.results.claims.types import UNKNOWN, Evidence

_GOES_ON = re.compile(
    r"\b(?:that\s+(?:point|time|step|validation|checkpoint)|then|there|this\s+(?:point|step|value)|afterwards?|which)\b",
    re.IGNORECASE,
)
_OTHERS = re.compile(r"\b(?:others?|rest|remaining|any|none|no)\b", re.IGNORECASE)


def readings(
    bound: Bound, sentence: Sentence, evidence: Evidence, before: Sentence | None
) -> Iterator[Bound]:
    """The nearest reading first."""
    subjects = [bound.subjects]
    if "subject" in bound.loose:
        subjects.append((*bound.firm, *_all_subjects(sentence, before, evidence)))
    attempts = [bound.attempt] if "attempt" not in bound.loose else [bound.attempt, None]
    for metric, (when, step), attempt, subject in product(
        _metrics(bound, sentence, before), _whens(bound, sentence, before), attempts, subjects
    ):
        yield replace(bound, metric=metric, when=when, step=step, attempt=attempt, subjects=subject)


def _metrics(bound: Bound, sentence: Sentence, before: Sentence | None) -> list[Mention | None]:
    if "metric" not in bound.loose:
        return [bound.metric]
    named = list(sentence.of("metric")) or list(before.of("metric") if before is not None else ())
    named = [mention for mention in named if UNKNOWN not in mention.ids]
    return list(dict.fromkeys([bound.metric, *named, None]))


def _whens(
    bound: Bound, sentence: Sentence, before: Sentence | None
) -> list[tuple[Mention | None, Mention | None]]:
    own = (bound.when, bound.step)
    if "when" not in bound.loose:
        return [own]
    named = list(sentence.of("when"))
    if before is not None and _GOES_ON.search(sentence.text):
        named += [mention for mention in before.of("when") if is_step(mention)]
    return list(dict.fromkeys([own, *((one, one if is_step(one) else None) for one in named), (None, None)]))


def _all_subjects(
    sentence: Sentence, before: Sentence | None, evidence: Evidence
) -> tuple[frozenset[str], ...]:
    """Whatever belongs to a level, point or seed that is named, or to the baseline it is compared with."""
    if _OTHERS.search(sentence.text):
        return ()
    mentions = [*sentence.mentions, *(before.mentions if before is not None else ())]
    names = {name for mention in mentions for name in mention.ids} | {"baseline"}
    return (frozenset().union(*(evidence.subjects.get(name, frozenset()) for name in names)),)
