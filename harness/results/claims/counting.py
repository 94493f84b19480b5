"""What a count counts: whether "three failed runs" may be what a number of the evidence says.

In: a printed number with the words around it, a number of the evidence. Out: yes or no.
"""

from __future__ import annotations

import re

from harness.results.claims.number_words import SPELLED
from harness.results.claims.quantity import Quantity
from harness.results.claims.reading import Sentence
from harness.results.claims.types import Number

COUNTED = frozenset(
    {
        "attempt",
        "run",
        "seed",
        "task",
        "validation",
        "validated",
        "restarted",
        "crash",
        "step",
        "episode",
        "point",
        "level",
        "row",
        "repair",
    }
)


_OF_THESE = re.compile(
    r"\bof\s+(?:the\s+|these\s+|its\s+)?\d+\s+((?:[a-z]+\s*){1,3}),\s*(?:only\s+|about\s+)?$", re.IGNORECASE
)


_HEAD_ENDS = re.compile(
    r"\b(?:of|in|per|and|or|were|was|are|is|that|which|on|at|for|with|from|to|each|before|after|had|have|has|did)\b"
)


def noun_fits(quantity: Quantity, number: Number, sentence: Sentence, before: str = "") -> bool:
    """Whether what is counted is what the number counts: the head of the words behind it, or, where those
    count nothing, any word before it (`before`: the sentence before)."""
    noun = quantity.noun
    if re.search(r"\bn\s*[=:]\s*$", sentence.text[: quantity.start], re.IGNORECASE):
        return bool(number.nouns & {"run", "seed", "task"})
    behind = sentence.text[quantity.end : quantity.end + 60].lower()
    if "run" in number.nouns and _PER_POINT.match(sentence.text, quantity.end):
        return False  # only "seeds per point" is of each
    if (
        number.nouns & {"run", "seed"}
        and _MEAN_OVER.search(sentence.text[: quantity.start])
        and "seed" in noun
    ):
        return "counted" in number.nouns
    if re.search(r"\bevery\s+$", sentence.text[: quantity.start], re.IGNORECASE):
        return number.label.startswith("steps between")
    if noun.startswith("of "):
        noun = behind.partition("of ")[2]
        words = [word for word in re.findall(r"[a-z]+", noun) if any(alike(word, one) for one in COUNTED)][:1]
    elif of_these := _OF_THESE.search(sentence.text[: quantity.start]):
        words = re.findall(r"[a-z]+", of_these[1].lower())
    elif not noun:
        words = [
            word
            for word in re.findall(r"[a-z]+", re.split(r"\b(?:after|at|before)\b", behind[:24])[0])
            if any(alike(word, one) for one in COUNTED)
        ][:1]
    else:
        words = re.findall(r"[a-z]+", _HEAD_ENDS.split(noun)[0])[:4]
    head = next((word for word in reversed(words) if any(alike(word, noun) for noun in COUNTED)), "")
    if head:
        return any(alike(head, noun) for noun in number.nouns)
    if any(alike(word, noun) for word in words for noun in number.nouns):
        return True
    around = re.findall(r"[a-z]+", f"{before} {sentence.text[: quantity.start]}".lower())
    return not quantity.is_word and any(alike(word, noun) for word in around for noun in number.nouns)


def alike(word: str, noun: str) -> bool:
    return word.rstrip("s") == noun.rstrip("s") or (len(noun) > 4 and word.startswith(noun[:5]))


BAD = (
    r"\b(?:fail\w*|crash\w*|missing|lost|loss|died|unfinished|unstarted|never\s+(?:started|ran|began)|oom|"
    r"out[\s-]of[\s-]memory|left\s+out|excluded|(?:do|does|did|was|were)\s*(?:not|n't)\s+(?:finish|run|count|start)\w*)\b"
)
_NEVER = re.compile(
    r"\b(?:never|unstarted|missing|left\s+out|excluded|budget|not\s+count|not\s+(?:be\s+)?(?:start|run|launch|begin)\w*)\b",
    re.IGNORECASE,
)
_NOT_BEGUN = re.compile(r"\b(?:never|unstarted|not\s+(?:be\s+)?(?:start|launch|begin)\w*)\b", re.IGNORECASE)
_CRASHED = re.compile(
    r"\b(?:crash\w*|fail\w*|died|oom|(?:out[\s-]of|gpu|cuda)[\s-]memory|ran\s+out)\b", re.IGNORECASE
)
_REACHED = re.compile(
    r"\b(?:reach\w*|threshold|pass(?:ed)?|below|above|under|over|got|exceed\w*|attain\w*|cross\w*|cleared|did|target|made\s+it)\b",
    re.IGNORECASE,
)
_NOT = re.compile(r"\b(?:not|never|none|no|short|missed|failed|without)\b|n't\b", re.IGNORECASE)
_PER_POINT = re.compile(
    r"\s*(?:\w+\s+){0,2}?(?:seeds|runs|repeats)\s+(?:per|each|(?:for|at|in|of|on)\s+(?:each|every))\b",
    re.IGNORECASE,
)
_MEAN_OVER = re.compile(
    r"\b(?:mean|average|averaged)\s+(?:over|of|across|from)\s+(?:the\s+|its\s+|all\s+)?$", re.IGNORECASE
)
_ALL_TRIES = re.compile(
    r"\b(?:in|on)\s+(?:all|every|each)\b|\b(?:every|each)\s+(?:time|try|episode|attempt|sample)|\ball\s+(?:\w+\s+)?(?:episodes|tries|attempts|samples|times)|\balways\b|\bfully\b",
    re.IGNORECASE,
)
_ANY_TRY = re.compile(r"\bat\s+least\s+(?:once|one)\b|\bany\s+of\b|\bone\s+or\s+more\b", re.IGNORECASE)
_CLAUSE_ENDS = re.compile(
    r"[;.,:](?!\d)|\b(?:and|but|while|against|versus|compared|since|because|as|after)\b"
)


_GOOD = r"\b(?:finished|completed|succeeded|count|counted|ran to)\b"


def status_fits(quantity: Quantity, number: Number, sentence: Sentence) -> bool:
    """Whether a count of failed ones (of those that count) is spoken of as such."""
    near = re.split(
        rf"[;.,]|\b(?:since|because|as|after|while|but)\b|\band\s+(?:\d|(?:{SPELLED})\b)",
        sentence.text[quantity.start : quantity.end + 45],
        flags=re.IGNORECASE,
    )[0]
    says_bad = re.search(BAD, near, re.IGNORECASE) is not None
    says_good = not says_bad and re.search(_GOOD, near, re.IGNORECASE) is not None
    if says_bad and "unstarted" in number.nouns and _CRASHED.search(near) and not _NEVER.search(near):
        return False
    if says_bad and "crashed" in number.nouns and _NOT_BEGUN.search(near) and not _CRASHED.search(near):
        return False
    if "reached" in number.nouns:
        is_short = _NOT.search(near) is not None
        return (
            not says_bad
            and _REACHED.search(sentence.text) is not None
            and is_short == ("short" in number.nouns)
        )
    if "needed" in number.nouns:
        return re.search(r"\b(?:need|requir|take|would|resolv)\w*", sentence.text, re.IGNORECASE) is not None
    if "failed" in number.nouns:
        return re.search(BAD, sentence.text, re.IGNORECASE) is not None and not says_good
    if (
        "counted" in number.nouns
        and re.search(r"\bthreshold\b", sentence.text)
        and not (says_bad or says_good)
    ):
        return False
    if "counted" in number.nouns:
        return not says_bad
    has_status = bool(number.nouns & {"attempt", "run"}) and "of" not in number.label.split()[-3:]
    return not (says_bad and has_status)


def tries_fit(quantity: Quantity, number: Number, sentence: Sentence) -> bool:
    """Whether a count or share of tasks "solved every time" (or "at least once") is one of those."""
    words = _CLAUSE_ENDS.split(sentence.text[quantity.end :])[0]
    every, once = _ALL_TRIES.search(words), _ANY_TRY.search(words)
    is_of_tasks = number.metric.startswith("val/") and number.unit in ("count", "rate")
    if not is_of_tasks or (every is None) == (once is None):
        return True
    if number.metric.endswith(("total_tasks", "pass_n", "episodes")):
        return True
    is_once = re.search(r"num_pass_n_tasks$|pass\S*@(?!1$)\d+$", number.metric) is not None
    return number.metric.endswith("num_all_success_tasks") if every else is_once
