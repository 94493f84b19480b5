"""Lengths of time in English and Chinese prose: `12 hours`, `1d2h`, `90 min`, `12小时`, `01:30:00`."""

import re
import unicodedata
from dataclasses import dataclass

_SECONDS = {"w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_CHINESE_UNITS = {"星期": "w", "周": "w", "天": "d", "日": "d", "时": "h", "钟头": "h", "分": "m", "秒": "s"}
_ENGLISH = r"(?:(?i:weeks?|wks?|days?|hours?|hrs?|minutes?|mins?|seconds?|secs?)|[wdhmsDHS])(?![A-Za-z])"
_CHINESE = r"(?:个?星期|周|天|日|个?小时|个?钟头|分钟|分|秒钟|秒)"
_NUMBER_WORDS = """
0.5 半 half-an half-a, 1 one an a 一, 2 two 二 两, 3 three 三, 4 four 四, 5 five 五, 6 six 六, 7 seven 七,
8 eight 八, 9 nine 九, 10 ten 十, 12 twelve 十二, 15 fifteen 十五, 20 twenty 二十, 24 twenty-four 二十四,
30 thirty 三十, 45 forty-five 四十五, 48 forty-eight 四十八, 60 sixty 六十,
72 seventy-two 七十二, 90 ninety 九十
"""
_WORDS = {word: float(value) for value, *words in map(str.split, _NUMBER_WORDS.split(",")) for word in words}
_WORD = "|".join(re.escape(word).replace(r"\-", r"[\s-]") for word in sorted(_WORDS, key=len, reverse=True))
_NUMBER = rf"(?:\d+(?:,\d{{3}})*(?:\.\d+)?|\.\d+|(?i:{_WORD})(?=[\s-]|(?<=[^\x00-\x7f])))"
_PART = rf"(?P<number>{_NUMBER})(?P<more>个半)?\s*-?\s*(?P<unit>{_ENGLISH}|{_CHINESE})(?P<tail>半)?"
_PLAIN = re.sub(r"\?P<\w+>", "?:", _PART)
_LENGTH = re.compile(
    rf"(?<![A-Za-z0-9_.一二三四五六七八九十百])(?P<sign>[-−]\s*)?{_PLAIN}(?:\s*(?:,|and\b|&|又|零)?\s*{_PLAIN})*"
)
_CLOCK = re.compile(r"(?<![\d:.-])(?:(?P<d>\d{1,3})-)?(?P<h>\d{1,3}):(?P<m>[0-5]\d):(?P<s>[0-5]\d)(?![\d:])")
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}(?:[ T]\d{1,2}:\d{2}(?::\d{2})?)?")
_CHOICE = re.compile(
    rf"(?<![A-Za-z0-9_.])(?:\d+(?:\.\d+)?\s*(?:{_ENGLISH}|{_CHINESE})?\s*[-–—~x×*]\s*(?=\d)"
    rf"|{_NUMBER}\s*(?:{_ENGLISH}|{_CHINESE})?\s*(?:\bto\b|\bor\b|至|到|或)\s*){_PLAIN}"
)
HALF = re.compile(r"半|\bhalf\b|⁄", re.IGNORECASE)


@dataclass(frozen=True)
class Length:
    """One length of time found in a text, at `text[start:end]` of the normalised text."""

    seconds: float
    start: int
    end: int
    text: str


def normalise(text: str) -> str:
    """Full-width digits and punctuation as ASCII; markup around numbers and dates removed."""
    plain = unicodedata.normalize("NFKC", text).replace("`", " ").replace("**", " ")
    return _DATE.sub(lambda found: " " * len(found.group()), plain)


def find(text: str) -> list[Length]:
    """Every length of time in a normalised text, in order. Adjacent parts of falling unit are one length."""
    clocks = [
        Length(sum(float(found[unit] or 0) * _SECONDS[unit] for unit in "dhms"), *found.span(), found.group())
        for found in _CLOCK.finditer(text)
    ]
    lengths = [
        length
        for found in _LENGTH.finditer(text)
        if not any(clock.start < found.end() and found.start() < clock.end for clock in clocks)
        for length in _lengths(found)
    ]
    return sorted([*clocks, *lengths], key=lambda length: length.start)


def single(text: str) -> float | None:
    """Seconds of a text that is one length of time and nothing else; None for any other."""
    plain = normalise(text)
    found = find(plain)
    if len(found) != 1 or is_open(plain) or not found[0].seconds > 0:
        return None
    rest = plain[: found[0].start] + plain[found[0].end :]
    return None if rest.strip(" .") else found[0].seconds


def is_open(text: str) -> bool:
    """True if a text leaves the length open: a choice (`12-24 h`), a product (`2 x 12 h`), a stray half."""
    rest = list(text)
    found = find(text)
    for length in found:
        rest[length.start : length.end] = " " * (length.end - length.start)
    return bool(_CHOICE.search(text) or (found and HALF.search("".join(rest))))


def _lengths(match: re.Match[str]) -> list[Length]:
    """The lengths in a run of adjacent parts: a new one starts wherever the unit does not get smaller."""
    text, sign = match.string, -1.0 if match["sign"] else 1.0
    lengths: list[Length] = []
    smallest = float("inf")
    for part in re.finditer(_PART, match.group()):
        letters = (letter for chinese, letter in _CHINESE_UNITS.items() if chinese in part["unit"])
        unit = _SECONDS[next(letters, part["unit"][0].lower())]
        word, halves = re.sub(r"\s+", "-", part["number"].lower()), bool(part["more"]) + bool(part["tail"])
        amount = _WORDS[word] if word in _WORDS else float(word.replace(",", ""))
        seconds = sign * (amount + 0.5 * halves) * unit
        start = match.start() + part.start() if lengths else match.start()
        if lengths and unit < smallest:
            start, seconds = lengths[-1].start, seconds + lengths.pop().seconds
        end = match.start() + part.end()
        lengths.append(Length(seconds, start, end, text[start:end]))
        smallest = unit
    return lengths
