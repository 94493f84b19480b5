"""Numbers that a text of a person or a log has: they may be quoted beside the same words.

In: a number of a sentence, the evidence. Out: yes or no.
"""

from __future__ import annotations

import re

from harness.results.claims.counting import COUNTED, alike
from harness.results.claims.quantity import Quantity
from harness.results.claims.reading import Bound, Sentence
from harness.results.claims.types import Evidence

_SMALL = frozenset(
    [
        "the",
        "and",
        "for",
        "with",
        "from",
        "that",
        "this",
        "was",
        "were",
        "are",
        "its",
        "has",
        "had",
        "not",
        "but",
        "all",
        "than",
        "then",
        "per",
        "each",
        "only",
        "over",
    ]
)
_PLANNED = re.compile(
    r"\b(?:question|purpose|plan(?:ned)?|goal|target|expect(?:ed|ation)?|asked|blueprint|hypothesis|requested|limit|allowed|budget)\b",
    re.IGNORECASE,
)


def is_quoted(quantity: Quantity, sentence: Sentence, evidence: Evidence, bound: Bound) -> bool:
    """Whether a text of a person or a log has this number beside the same words."""
    if quantity.form != "plain" or (bound.metric is not None and not _PLANNED.search(sentence.text)):
        return False
    if any(alike(word, one) for word in re.findall(r"[a-z]+", quantity.noun)[:2] for one in COUNTED):
        return False
    around = sentence.text[max(0, quantity.start - 60) : quantity.end + 60].lower()
    said = set(re.findall(r"[a-z]{4,}", around)) - _SMALL - {quantity.text.lower()}
    for text in evidence.quoted:
        for match in re.finditer(rf"(?<![\w.]){re.escape(quantity.text.strip())}(?![\w]|\.\d)", text):
            there = set(re.findall(r"[a-z]{4,}", text[max(0, match.start() - 40) : match.end() + 40].lower()))
            if said & there:
                return True
    return False
