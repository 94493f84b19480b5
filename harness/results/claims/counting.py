"""What a count counts: whether "three failed runs" may be what a number of the evidence says.

In: a printed number with the words around it, a number of the evidence. Out: yes or no.
"""

from __future__ import annotations

import re

from harness.results.claims.quantities import Quantity
from harness.results.claims.reading import Sentence
from harness.results.claims.types import Number

COUNTED = frozenset(
    {"attempt", "run", "seed", "task", "validation", "step", "episode", "point", "level", "row", "repair"}
)


_OF_THESE = re.compile(
    r"\bof\s+(?:the\s+|these\s+|its\s+)?\d+\s+((?:[a-z]+\s*){1,3}),\s*(?:only\s+|about\s+)?$", re.IGNORECASE
)


_HEAD_ENDS = re.compile(
    r"\b(?:of|in|per|and|or|were|was|are|is|that|which|on|at|for|with|from|to|each|before|after|had|have|has|did)\b"
)


def noun_fits(quantity: Quantity, number: Number, sentence: Sentence) -> bool:
    """Whether what is counted is what the number counts: the head of the words behind it."""
    noun = quantity.noun
    if re.search(r"\bn\s*=\s*$", sentence.text[: quantity.start], re.IGNORECASE):
        return bool(number.nouns & {"run", "seed", "task"})
    behind = sentence.text[quantity.end : quantity.end + 60].lower()
    if noun.startswith("of "):
        noun = behind.partition("of ")[2]
        words = [word for word in re.findall(r"[a-z]+", noun) if any(alike(word, one) for one in COUNTED)][:1]
    elif of_these := _OF_THESE.search(sentence.text[: quantity.start]):
        words = re.findall(r"[a-z]+", of_these[1].lower())
    else:
        words = re.findall(r"[a-z]+", _HEAD_ENDS.split(noun)[0])[:4]
    head = next((word for word in reversed(words) if any(alike(word, noun) for noun in COUNTED)), "")
    if head:
        return any(alike(head, noun) for noun in number.nouns)
    return any(alike(word, noun) for word in words for noun in number.nouns)


def alike(word: str, noun: str) -> bool:
    return word.rstrip("s") == noun.rstrip("s") or (len(noun) > 4 and word.startswith(noun[:5]))


_BAD = r"\b(?:fail\w*|crash\w*|missing|lost|died|unfinished|did not (?:finish|run|count))\b"


_GOOD = r"\b(?:finished|completed|succeeded|count|counted|ran to)\b"


def status_fits(quantity: Quantity, number: Number, sentence: Sentence) -> bool:
    """Whether a count of failed ones (of those that count) is spoken of as such."""
    near = re.split(r"[;.,]", sentence.text[quantity.start : quantity.end + 45])[0]
    says_bad = re.search(_BAD, near, re.IGNORECASE) is not None
    says_good = re.search(_GOOD, near, re.IGNORECASE) is not None
    if "failed" in number.nouns:
        return re.search(_BAD, sentence.text, re.IGNORECASE) is not None and not says_good
    if "counted" in number.nouns:
        return not says_bad
    has_status = bool(number.nouns & {"attempt", "run"}) and "of" not in number.label.split()[-3:]
    return not (says_bad and has_status)
