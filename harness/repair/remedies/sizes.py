"""Amounts of memory as logs write them."""

import re

_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*([KMGT]?)(i?)B?(?:ytes)?", re.IGNORECASE)
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def gib(text: str) -> float | None:
    """`1.02 GiB`, `512 MB`, `79.15GiB` or a number of bytes in GiB; None for anything else, also for numbers
    that no memory has."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    base = 1024 if match[3] or not match[2] else 1000
    return float(match[1]) * float(base ** _POWER[match[2].lower()]) / 2**30


def whole(text: str) -> int | None:
    """`4,096` as a number; None for anything else, and for more digits than a setting has."""
    digits = text.replace(",", "")
    return int(digits) if re.fullmatch(r"[0-9]{1,9}", digits) else None
