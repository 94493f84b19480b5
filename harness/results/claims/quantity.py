"""A number as it is printed: its value, its unit, and how much its digits leave open.

Nothing is found out here: `quantities` and `number_words` make these.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Form = Literal["plain", "percent", "points", "ratio", "seconds", "fraction", "money"]

TIMES = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
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


_SPAN = re.compile(r"\bover\s*$", re.IGNORECASE)
_SPANNED = re.compile(
    r"(?:\w+\s+)?(?:seeds?|runs?|steps?|tasks?|episodes?|validations?|updates?)\b", re.IGNORECASE
)


def bound_of(before: str, noun: str = "") -> str:
    """ "over 1000" is more than that, "over 1000 steps" is all of them."""
    if _SPAN.search(before) and _SPANNED.match(noun):
        return ""
    if _ABOUT.search(before):
        return "about"
    if _ABOVE.search(before):
        return "above"
    return "below" if _BELOW.search(before) else ""
