"""The numbers in a sentence, as a reader understands them.

In: a sentence. Out: `Quantity`s with value, printed precision and unit; numbers that are part of a name, a
version, a date or a step reference are none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Form = Literal["plain", "percent", "points", "ratio", "seconds", "fraction", "money"]

_DIGITS = r"(?:\d{1,3}(?:[,\u202f\u2009\u00a0 ]\d{3})+(?:\.\d+)?(?![\d.]*\d)|\d+(?:\.\d+)?|\.\d+)"
_POWER = r"(?:[eE][+\-−]?\d+|\s?[×x·*]\s?10(?:\^|\*\*)?[({]?[\-−]?\d+[)}]?|\s?[×x·*]\s?10[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)"
_NUMBER = re.compile(
    rf"(?<![\w.@#/])(?P<sign>(?<![\w%)\]])[+\-−])?(?P<digits>{_DIGITS})(?P<power>{_POWER})?(?P<k>[kKM](?![\w]))?"
)
_SUPERSCRIPT = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_TIMES = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
_TIME = "|".join(sorted(_TIMES, key=len, reverse=True))
_UNIT = re.compile(
    rf"""\s?(?:(?P<points>(?:percentage|%)[\s-]points?\b|pp\b|points?\b(?=\s+(?:above|below|higher|lower|better|worse|more|less|up|down|over)\b)|%\s?points?\b)
    | (?P<percent>%|percent\b|per\s?cent\b)
    | (?P<ratio>[x×](?![\w])|-?\s?fold\b|\s?times\b(?!\s?(?:out|in|steps))|-times\b)
    | (?P<time>(?:{_TIME})\b(?!\s*/)))""",
    re.VERBOSE | re.IGNORECASE,
)
_TIME_MORE = re.compile(rf"[\s,]*(?:and\s+)?(?P<digits>\d+(?:\.\d+)?)\s?(?P<time>{_TIME})\b", re.IGNORECASE)
_OF = re.compile(
    r"\s*(?:/|(?:out\s+)?of\s+(?:the\s+|all\s+|these\s+|its\s+)?)\s*(\d+|[a-z]+)\b(?!\s?%|\.\d)",
    re.IGNORECASE,
)
_ABOUT = re.compile(
    r"(?:\b(?:about|around|roughly|nearly|almost|approximately|circa|ca\.?|close to|some|just under|"
    r"just over|"
    r"just below|just above|slightly (?:over|under|above|below)|approx\.?)|[~≈])\s*(?:an?\s+|\$)?$",
    re.IGNORECASE,
)
_ABOVE = re.compile(
    r"(?:\b(?:more than|over|above|at least|exceed(?:s|ed|ing)?|greater than|higher than|no less than)|"
    r"[>≥])\s*$",
    re.IGNORECASE,
)
_BELOW = re.compile(
    r"(?:\b(?:less than|under|below|at most|fewer than|up to|lower than|no more than|within)|[<≤])\s*$",
    re.IGNORECASE,
)
_REFERS = re.compile(
    r"(?:step|attempt|seed|task|epoch|run|point|section|appendix|figure|table|eq)s?[\s-]$", re.IGNORECASE
)
_MASKED = re.compile(
    r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?\b|\b\d\d?:\d\d(?::\d\d)?\b|\bv?\d+\.\d+\.\d+\b|"
    r"\bv\d+(?:\.\d+)?\b"
    r"|\b(?:section|appendix|figure|fig\.|table|equation|rule|issue)\s+\d+(?:\.\d+)?\b|^\s*\d+[.)]\s"
    r"|\b(?:python|cuda|torch|pytorch|version|ubuntu|linux)\s+\d+(?:\.\d+)*\b|\bpass@\d+|@\d+|\berrno\s+\d+"
    r"|\b95\s?%\s*(?:\w+\s+){0,2}(?:interval|intervals|ci|cis|confidence|t\b|band|bands)|\b95\s?%\s*(?=\[|\()"
    r"|\b(?:ci|interval|confidence)\s*\(?\s*95\s?%|\b80\s?%\s*power\b|\b0\.05\s+level\b|\balpha\s*=\s*0\.05",
    re.IGNORECASE,
)
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
}
_COUNTED = (
    r"attempts?|runs?|seeds?|tasks?|validations?|evaluations?|steps?|episodes?|points?|levels?|repairs?|restarts?|"
    r"retries|failures?|crashes|minutes?|hours?|seconds?|gpus?|rows?|keys?|metrics?|launches|configurations?|settings"
)
_WORD_COUNT = re.compile(
    rf"\b(?P<word>{'|'.join(_WORDS)})\b(?:\s+(?P<of>(?:out\s+)?of\s+(?:the\s+)?(?P<all>{'|'.join(_WORDS)}|\d+)\b))?"
    rf"(?=[\s-]+(?P<noun>(?:\w+[\s-]+){{0,2}}?(?:{_COUNTED})\b)|(?(of)|(?!)))",
    re.IGNORECASE,
)
_RATIO_WORDS = {
    "doubled": 2,
    "doubles": 2,
    "doubling": 2,
    "twice": 2,
    "tripled": 3,
    "triples": 3,
    "quadrupled": 4,
    "thrice": 3,
    "halved": 0.5,
    "halves": 0.5,
    "halving": 0.5,
    "tenfold": 10,
    "twofold": 2,
    "threefold": 3,
    "fivefold": 5,
}
_RATIO_WORD = re.compile(
    rf"\b(?:{'|'.join(_RATIO_WORDS)})\b(?!\s+(?:with|in a row|before|because))", re.IGNORECASE
)
_SHARE_WORD = re.compile(
    r"\b(?P<word>half|a third|one third|two thirds|a quarter|"
    r"three quarters)\s+(?:of\s+)?(?:all\s+)?(?:the\s+)?"
    r"(?:validation\s+)?(?P<noun>tasks?|problems?|questions?|runs?)\b",
    re.IGNORECASE,
)
_SHARES = {
    "half": 1 / 2,
    "a third": 1 / 3,
    "one third": 1 / 3,
    "two thirds": 2 / 3,
    "a quarter": 1 / 4,
    "three quarters": 3 / 4,
}
_NOUN = re.compile(r"[\s-]+((?:[a-z][\w-]*[\s]+){0,3}[a-z][\w-]*)", re.IGNORECASE)


@dataclass(frozen=True)
class Quantity:
    """A number as printed. `value`: in the unit meant (0.87 for 87 %). `ulp`: one unit in its last printed
    digit, in the same unit. `bound`: "", "about", "above", "below". `noun`: up to four words that follow.
    `total`: the n of "3 of n"."""

    text: str
    start: int
    end: int
    value: float
    ulp: float
    form: Form = "plain"
    bound: str = ""
    noun: str = ""
    total: float | None = None
    is_signed: bool = False
    is_integer: bool = False
    is_word: bool = False

    def agrees(self, value: float) -> bool:
        """Whether `value` rounds to the printed digits; "about" allows one unit in the last digit, or a round
        number one digit less."""
        shown = self.value if self.is_signed else abs(self.value)
        real = value if self.is_signed else abs(value)
        slack = 1e-9 * max(1.0, abs(real))
        if self.bound == "above":
            return real >= shown - slack
        if self.bound == "below":
            return real <= shown + slack
        return abs(real - shown) <= self._tolerance() + slack

    def _tolerance(self) -> float:
        if self.bound != "about":
            return 0.5 * self.ulp
        is_round = self.is_integer and self.value and round(self.value / self.ulp) % 10 == 0
        return 5 * self.ulp if is_round else self.ulp


def quantities(
    sentence: str, names: Iterable[str] = (), taken: Iterable[tuple[int, int]] = ()
) -> list[Quantity]:
    """The numbers of a sentence in their order. `names` (of points and runs) and `taken` (places that are
    understood already, such as "step 40") hold none."""
    masked = _mask(sentence, names, taken)
    found = [*_printed(masked), *_shares(masked)]
    found += [
        word for word in _worded(masked) if not any(word.start < q.end and q.start < word.end for q in found)
    ]
    found += _ratios(masked)
    return sorted(found, key=lambda quantity: quantity.start)


def _mask(sentence: str, names: Iterable[str], taken: Iterable[tuple[int, int]]) -> str:
    spans = [match.span() for match in _MASKED.finditer(sentence)]
    for name in names:
        spans += [match.span() for match in re.finditer(re.escape(name), sentence, re.IGNORECASE)]
    letters = list(sentence)
    for start, end in (*spans, *taken):
        letters[start:end] = "\0" * (end - start)
    return "".join(letters)


def _printed(sentence: str) -> list[Quantity]:
    found: list[Quantity] = []
    for match in _NUMBER.finditer(sentence):
        if found and match.start() < found[-1].end:
            continue
        quantity = _quantity(sentence, match)
        if quantity is not None:
            found.append(quantity)
    return found


def _quantity(sentence: str, match: re.Match[str]) -> Quantity | None:
    before, end = sentence[: match.start()], match.end()
    if len(before) > 1 and before[-1] in "-–" and before[-2].isalpha() and not _REFERS.search(before):
        return None  # GPT-4
    if (
        len(before) > 1
        and before[-1] == "("
        and before[-2].isalpha()
        and sentence[match.end() : match.end() + 1] == ")"
    ):
        return None  # f(1)
    value, ulp = _read(match)
    unit = _UNIT.match(sentence, end)
    form: Form = "plain"
    total = None
    if unit is None and re.match(r"[A-Za-z_]|-(?:bit|shot)", sentence[end : end + 5]):
        return None  # 8B, 1st, 7f3a, 4-bit
    if unit is not None:
        end = unit.end()
        form = _form(unit)
        scale = (
            _TIMES[unit["time"].lower()]
            if form == "seconds"
            else 0.01
            if form in ("percent", "points")
            else 1.0
        )
        value, ulp = value * scale, ulp * scale
        while form == "seconds" and (more := _TIME_MORE.match(sentence, end)):
            scale = _TIMES[more["time"].lower()]
            value, ulp, end = value + float(more["digits"]) * scale, scale, more.end()
    elif before.rstrip().endswith("$"):
        form = "money"
    elif (of := _OF.match(sentence, end)) and (count := _count(of[1])) is not None and value <= count:
        form, total, end = "fraction", count, of.end()
    noun = _NOUN.match(sentence, end)
    return Quantity(
        text=sentence[match.start() : end].strip(),
        start=match.start(),
        end=end,
        value=value,
        ulp=ulp,
        form=form,
        bound=_bound(before),
        noun=noun[1].lower() if noun else "",
        total=total,
        is_signed=bool(match["sign"]),
        is_integer="." not in match["digits"] and not match["power"],
    )


def _form(unit: re.Match[str]) -> Form:
    if unit["points"]:
        return "points"
    if unit["percent"]:
        return "percent"
    return "ratio" if unit["ratio"] else "seconds"


def _read(match: re.Match[str]) -> tuple[float, float]:
    digits = re.sub(r"[,\u202f\u2009\u00a0 ]", "", match["digits"])
    exponent = 0
    if match["power"]:
        power = match["power"].translate(_SUPERSCRIPT).replace("−", "-")
        exponent = int(re.findall(r"-?\d+(?=\D*$)", power)[-1])
    exponent += {"k": 3, "K": 3, "M": 6}.get(match["k"] or "", 0)
    sign = -1.0 if match["sign"] in ("-", "−") else 1.0
    decimals = len(digits.partition(".")[2])
    return sign * float(f"{digits}e{exponent}"), float(f"1e{exponent - decimals}")


def _count(word: str) -> float | None:
    return float(word) if word.isdigit() else _WORDS.get(word.lower())


def _bound(before: str) -> str:
    if _ABOUT.search(before):
        return "about"
    if _ABOVE.search(before):
        return "above"
    return "below" if _BELOW.search(before) else ""


def _worded(sentence: str) -> list[Quantity]:
    found = []
    for match in _WORD_COUNT.finditer(sentence):
        word = match["word"].lower()
        total = _count(match["all"]) if match["all"] else None
        noun = match["noun"] or ""
        value, form = float(_WORDS[word]), _form_of(total)
        ulp = 1.0
        last = noun.lower().split()[-1] if noun else ""
        end = match.end()
        if last in _TIMES:
            value, ulp, form, end = value * _TIMES[last], _TIMES[last], "seconds", match.end() + 1 + len(noun)
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
                _bound(sentence[: match.start()]),
                noun.lower(),
                total,
                is_integer=True,
                is_word=True,
            )
        )
    return found


def _form_of(total: float | None) -> Form:
    return "plain" if total is None else "fraction"


def _shares(sentence: str) -> list[Quantity]:
    return [
        Quantity(
            match[0],
            match.start(),
            match.end(),
            _SHARES[match["word"].lower()],
            0.01,
            "percent",
            _bound(sentence[: match.start()]),
            match["noun"].lower(),
            is_word=True,
        )
        for match in _SHARE_WORD.finditer(sentence)
    ]


def _ratios(sentence: str) -> list[Quantity]:
    return [
        Quantity(
            match[0],
            match.start(),
            match.end(),
            float(_RATIO_WORDS[match[0].lower()]),
            0.2,
            "ratio",
            _bound(sentence[: match.start()]),
            is_word=True,
        )
        for match in _RATIO_WORD.finditer(sentence)
    ]
