"""Numbers in words: counts ("three attempts"), shares ("a quarter of the tasks"), multiples ("doubled").

In: a sentence. Out: `Quantity`s.
"""

from __future__ import annotations

import re

from harness.results.claims.quantity import TIMES, Form, Quantity, bound_of

_WORDS = {
    "zero": 0,
    "no": 0,
    "one": 1,
    "two": 2,
    "both": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
    "dozen": 12,
    "fifteen": 15,
    "sixteen": 16,
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "eighty": 80,
    "hundred": 100,
}
SPELLED = "|".join(_WORDS)
_COUNTED = (
    r"attempts?|runs?|seeds?|tasks?|validations?|evaluations?|steps?|episodes?|points?|levels?|repairs?|restarts?|"
    r"retries|failures?|crashes|minutes?|hours?|seconds?|gpus?|rows?|keys?|metrics?|launches|configurations?|settings|"
    r"engines?|workers?|nodes?|repeats|samples|rollouts|responses|epochs"
)
_WORD_COUNT = re.compile(
    rf"\b(?P<word>{SPELLED})\b(?:\s+(?P<of>(?:out\s+)?of\s+(?:the\s+)?(?P<all>{SPELLED}|\d+)\b))?"
    rf"(?=[\s-]+(?P<noun>(?:\w+[\s-]+){{0,2}}?(?:{_COUNTED})\b)|(?(of)|(?!)))",
    re.IGNORECASE,
)
_MULTIPLES = {
    "doubl": 2,
    "twice": 2,
    "tripl": 3,
    "quadrupl": 4,
    "thrice": 3,
    "halv": 0.5,
}
_MULTIPLE = re.compile(
    rf"\b(?P<word>doubl|(?<!ed\s)twice|tripl|quadrupl|thrice|halv|(?:{SPELLED})-?fold)(?:ed|es|ing|e)?\b"
    r"(?!\s+(?:with|in a row|before|because))"
    rf"|\bfactor\s+of\s+(?:about\s+|roughly\s+|nearly\s+|almost\s+|some\s+|more\s+than\s+|over\s+|~\s?)?(?P<factor>{SPELLED}|\d+(?:\.\d+)?)\b"
    rf"|\b(?P<times>{SPELLED})\s+times\s+(?:higher|lower|larger|smaller|as|the|more|less|faster|slower|longer|its|that|what)\b",
    re.IGNORECASE,
)
_SHARES = {
    "half": 1 / 2,
    "third": 1 / 3,
    "two thirds": 2 / 3,
    "quarter": 1 / 4,
    "three quarters": 3 / 4,
    "fifth": 1 / 5,
    "tenth": 1 / 10,
}
_SHARE = re.compile(
    r"\b(?:(?:an?|one)\s+)?(?P<word>half|third|two[\s-]thirds|quarter|three[\s-]quarters|fifth|tenth)\s+(?:of\s+)?"
    r"(?:all\s+)?(?:the\s+|its\s+)?(?:validation\s+|planned\s+|requested\s+)*(?:\d+\s+)?"
    r"(?P<noun>tasks?|problems?|questions?|runs|steps)\b",
    re.IGNORECASE,
)
_TIMES_DONE = re.compile(
    rf"\b(?P<verb>validated|evaluated|restarted|retried|repaired|crashed)\s+(?P<count>(?:once|twice)(?!\s+(?:before|after|at|during|in|more))|(?:{SPELLED}|\d+)(?=\s+times))\b",
    re.IGNORECASE,
)
_DURATION = re.compile(
    r"\b(?:(?P<half>half\s+an?)|an?|one)\s+(?P<unit>hour|minute)\b(?P<more>\s+and\s+a\s+half)?", re.IGNORECASE
)


def in_words(number: int) -> list[str]:
    """The words for a count, as patterns; its digits where there are none."""
    return [word for word, value in _WORDS.items() if value == number and word != "no"] or [str(number)]


def count(word: str) -> float | None:
    return float(word) if word.isdigit() else _WORDS.get(word.lower())


def worded(sentence: str) -> list[Quantity]:
    found = []
    for match in _WORD_COUNT.finditer(sentence):
        word = match["word"].lower()
        total = count(match["all"]) if match["all"] else None
        noun = match["noun"] or ""
        value, form = float(_WORDS[word]), _form_of(total)
        if word == "both" and len(noun.split()) > 2:
            continue  # "both solves more tasks"
        ulp = 1.0
        last = noun.lower().split()[-1] if noun else ""
        end = match.end()
        if last in TIMES:
            value, ulp, form, end = value * TIMES[last], TIMES[last], "seconds", match.end() + 1 + len(noun)
        elif word == "no" and not re.match(
            r"validations?$|repairs?$|restarts?$|retries$|attempts?$", noun, re.IGNORECASE
        ):
            continue
        found.append(
            Quantity(
                match[0].strip(),
                match.start(),
                end,
                value,
                ulp,
                form,
                bound_of(sentence[: match.start()], noun),
                noun.lower(),
                total,
                is_integer=True,
                is_word=True,
            )
        )
    return found


def _form_of(total: float | None) -> Form:
    return "plain" if total is None else "fraction"


def shares(sentence: str) -> list[Quantity]:
    return [
        Quantity(
            match[0],
            match.start(),
            match.end(),
            _SHARES[re.sub(r"[\s-]+", " ", match["word"].lower())],
            0.06,  # a share in words is a rough one
            "percent",
            bound_of(sentence[: match.start()]),
            match["noun"].lower(),
            is_word=True,
        )
        for match in _SHARE.finditer(sentence)
    ]


def multiples(sentence: str) -> list[Quantity]:
    """ "doubled", "a factor of five", "three times higher": a tenth of it more or less is still that."""
    found = []
    for match in _MULTIPLE.finditer(sentence):
        word = (match["factor"] or match["times"] or "").lower()
        known = (match["word"] or "").lower().replace("-", "")
        value = (count(word) if word.isalpha() else float(word)) if word else _MULTIPLES.get(known)
        if value is None:
            value = count(known.removesuffix("fold")) or 0.0
        bound = bound_of(sentence[: match.start()]) or bound_of(sentence[: match.start("factor")])
        found.append(
            Quantity(match[0], match.start(), match.end(), value, 0.2 * value, "ratio", bound, is_word=True)
        )
    return found


def durations(sentence: str) -> list[Quantity]:
    """ "half an hour", "a minute and a half"."""
    found = []
    for match in _DURATION.finditer(sentence):
        unit = TIMES[match["unit"].lower()]
        value = 0.5 * unit if match["half"] else 1.5 * unit if match["more"] else unit
        bound = bound_of(sentence[: match.start()])
        found.append(
            Quantity(match[0], match.start(), match.end(), value, 0.3 * unit, "seconds", bound, is_word=True)
        )
    return found


def times(sentence: str) -> list[Quantity]:
    """How often something was done: "validated five times", "restarted once"."""
    found = []
    for match in _TIMES_DONE.finditer(sentence):
        word = match["count"].lower()
        value = {"once": 1.0, "twice": 2.0}.get(word) or count(word) or 0.0
        noun = match["verb"].lower()
        found.append(
            Quantity(
                match[0], match.start(), match.end(), value, 1.0, noun=noun, is_integer=True, is_word=True
            )
        )
    return found
