"""Two records of the same numbers: what was written down, and what the raw files give now.

In: JSON data, CSV tables or text. Out: each place where they differ, with both values. Numbers may differ in
the last digits of a float. A mask stands for the characters that it replaced, of which nobody knows more than
that they were a secret: for one word that could be one, and for nothing in a field that the harness writes
words of its own in.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.redaction import MASK, secret_values
from harness.results.sources import same_number
from harness.results.types import Discrepancy
from harness.results.verifying.schema import LARGEST_BYTES
from harness.results.verifying.types import found

MOST_NAMED = 20  # differences of one file that are named one by one
_OWN_WORDS = frozenset(("design", "effect", "finding", "goal", "outcome", "verdict"))
"""Fields in which the harness writes words of its own: no secret was ever there."""
_MASKS = re.compile(rf"(?:{re.escape(MASK)})+")


def as_read(data: Any) -> Any:
    """The data as it comes back from a file."""
    return json.loads(json.dumps(data))


def named(file: str, differ: Iterator[tuple[str, str]]) -> tuple[Discrepancy, ...]:
    """Differences within one file, the first of many."""
    pairs = list(differ)
    more = [(file, f"{len(pairs) - MOST_NAMED} more differences")] if len(pairs) > MOST_NAMED else []
    return found([*((f"{file}, {place}", why) for place, why in pairs[:MOST_NAMED]), *more])


def differences(recorded: Any, again: Any, place: str, field: str = "") -> Iterator[tuple[str, str]]:
    """Where two JSON values differ, numbers by more than their last digits. `field`: the name they have."""
    if isinstance(recorded, dict) and isinstance(again, dict):
        for key in dict.fromkeys((*again, *recorded)):
            inner = f"{place}.{key[:80]}" if place else key[:80]
            if key in recorded and key in again:
                yield from differences(recorded[key], again[key], inner, key)
            else:
                yield inner, "it is missing" if key in again else "the runs give nothing of that name"
    elif isinstance(recorded, list) and isinstance(again, list) and len(recorded) == len(again):
        for number, (one, other) in enumerate(zip(recorded, again, strict=True)):
            yield from differences(one, other, f"{place}[{number}]", field)
    elif not _is_same(recorded, again, field):
        yield place, f"it says {_short(recorded)}, the runs give {_short(again)}"


def is_same_text(recorded: str, again: str) -> bool:
    """Whether two texts are the same, but for secrets that were masked when the first was written."""
    if recorded == again:
        return True
    first, *parts = _MASKS.split(recorded)
    if not parts or not again.startswith(first):
        return False
    start = len(first)
    for number, part in enumerate(parts, start=1):
        is_last = number == len(parts)
        end = len(again) - len(part) if is_last else again.find(part, start + 1)
        if end <= start or (is_last and not again.endswith(part)) or not _is_secret(again[start:end]):
            return False
        start = end + len(part)
    return True


def _is_secret(text: str) -> bool:
    """Whether a variable's value would have been masked. A secret of several words is not believed in: a
    mask could hide a sentence then."""
    is_known = text == MASK or bool(secret_values({"API_KEY": text}))
    return is_known and not any(letter.isspace() or letter in "<>" for letter in text)


def _is_same(recorded: Any, again: Any, field: str) -> bool:
    if isinstance(recorded, str) and isinstance(again, str) and field not in _OWN_WORDS:
        return is_same_text(recorded, again)
    if type(recorded) in (int, float) and type(again) in (int, float):
        try:
            return same_number(float(recorded), float(again))
        except OverflowError:
            return False
    return bool(type(recorded) is type(again) and recorded == again)


def table_differences(path: Path, again: str) -> Iterator[tuple[str, str]]:
    """Where a CSV differs from the text that it would have now, number by number."""
    try:
        text = text_of(path)
        rows = None if text is None else list(csv.reader(io.StringIO(text, newline="")))
    except (OSError, ValueError, csv.Error) as error:
        yield "the table", f"it cannot be read: {error}"
        return
    if rows is None:
        return  # the fingerprint tells
    fresh = list(csv.reader(io.StringIO(again, newline="")))
    if len(rows) != len(fresh):
        yield "the table", f"it has {len(rows):,} lines, the runs give {len(fresh):,}"
        return
    for number, (row, other) in enumerate(zip(rows, fresh, strict=True), start=1):
        is_same = len(row) == len(other) and all(map(_is_same_cell, row, other, fresh[0]))
        if not is_same:
            yield f"line {number}", f"it says {_short(row)}, the runs give {_short(other)}"


def text_of(path: Path) -> str | None:
    """The text of a file; None for what is no file of ours: gone, a link, or far too large. Raises OSError,
    ValueError."""
    try:
        there = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    is_ours = stat.S_ISREG(there.st_mode) and there.st_size <= LARGEST_BYTES
    return path.read_bytes().decode("utf-8") if is_ours else None


def _is_same_cell(recorded: str, again: str, column: str) -> bool:
    try:
        return _is_same(float(recorded), float(again), column)
    except ValueError:
        return _is_same(recorded, again, column)


def count(data: Any) -> int:
    """How many numbers there are in JSON data."""
    if isinstance(data, dict | list):
        return sum(map(count, data.values() if isinstance(data, dict) else data))
    return int(type(data) in (int, float) and math.isfinite(data))


def _short(value: Any) -> str:
    return repr(value)[:100]
