"""The numbers in a sentence, as a reader understands them.

In: a sentence. Out: `Quantity`s with value, printed precision and unit; numbers that are part of a name, a
version, a date or a step reference are none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from harness.results.claims.number_words import count, durations, multiples, shares, times, worded
from harness.results.claims.quantity import TIMES, Form, Quantity, bound_of

_DIGITS = r"(?:\d{1,3}(?:[,\u202f\u2009\u00a0 ]\d{3})+(?:\.\d+)?(?![\d.]*\d)|\d+(?:\.\d+)?|\.\d+)"
_POWER = r"(?:[eE][+\-−]?\d+|\s?[×x·*]\s?10(?:\^|\*\*)?[({]?[\-−]?\d+[)}]?|\s?[×x·*]\s?10[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)"
_NUMBER = re.compile(
    rf"(?<![\w.@#/])(?P<sign>(?<![\w%)\]])[+\-−])?(?P<digits>{_DIGITS})(?P<power>{_POWER})?(?P<k>[kKM](?![\w]))?"
)
_TIME = "|".join(sorted(TIMES, key=len, reverse=True))
_SUPERSCRIPT = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_UNIT = re.compile(
    rf"""[\s-]?(?:(?P<points>(?:percentage|%)[\s-]points?\b|pp\b|points?\b(?!\s+(?:were|was|are|have|in\s+the\s+sweep)\b)|%\s?points?\b)
    | (?P<percent>%|percent\b|per\s?cent\b)
    | (?P<ratio>[x×](?![\w])|-?\s?fold\b|\s?times\b(?!\s?(?:out|in|steps))|-times\b)
    | (?:(?:run|gpu)[\s-])?(?P<time>(?:{_TIME})\b(?!\s*/)))""",
    re.VERBOSE | re.IGNORECASE,
)
_TIME_MORE = re.compile(rf"[\s,]*(?:and\s+)?(?P<digits>\d+(?:\.\d+)?)\s?(?P<time>{_TIME})\b", re.IGNORECASE)
_OF = re.compile(
    r"\s*(?:/|(?:out\s+)?of\s+(?:every\s+|the\s+|all\s+|these\s+|its\s+)?(?:allotted\s+|planned\s+|allowed\s+|total\s+)?)\s*(\d+|[a-z]+)\b(?!\s?%|\.\d)",
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
_NOUN = re.compile(r"[\s-]+((?:[a-z][\w-]*[\s]+){0,3}[a-z][\w-]*)", re.IGNORECASE)


def quantities(
    sentence: str, names: Iterable[str] = (), taken: Iterable[tuple[int, int]] = ()
) -> list[Quantity]:
    """The numbers of a sentence in their order. `names` (of points and runs) and `taken` (places that are
    understood already, such as "step 40") hold none."""
    masked = _mask(sentence, names, taken)
    found = [*multiples(masked), *shares(masked)]
    for more in (_printed(masked), durations(masked), worded(masked), times(masked)):
        found += [one for one in more if not any(one.start < q.end and q.start < one.end for q in found)]
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
            TIMES[unit["time"].lower()]
            if form == "seconds"
            else 0.01
            if form in ("percent", "points")
            else 1.0
        )
        value, ulp = value * scale, ulp * scale
        while form == "seconds" and (more := _TIME_MORE.match(sentence, end)):
            if TIMES[more["time"].lower()] >= scale:
                break  # "2 hours, 30 hours in all"
            scale = TIMES[more["time"].lower()]
            value, ulp, end = value + float(more["digits"]) * scale, scale, more.end()
    elif before.rstrip().endswith("$"):
        form = "money"
    elif (of := _OF.match(sentence, end)) and (total_of := count(of[1])) is not None and value <= total_of:
        form, total, end = "fraction", total_of, of.end()
    noun = _NOUN.match(sentence, end)
    behind = noun[1].lower() if noun else ""
    return Quantity(
        text=sentence[match.start() : end].strip(),
        start=match.start(),
        end=end,
        value=value,
        ulp=ulp,
        form=form,
        bound=bound_of(before, behind),
        noun=behind,
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
