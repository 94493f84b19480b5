"""Two records of the same numbers: what was written down, and what the raw files give now.

In: JSON data or CSV tables. Out: each place where they differ, with both values. Numbers may differ in the
last digits of a float; text that holds a mask is not compared, because what is secret differs from place to
place.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.redaction import MASK
from harness.results.sources import same_number
from harness.results.types import Discrepancy
from harness.results.verifying.schema import LARGEST_BYTES
from harness.results.verifying.types import found

MOST_NAMED = 20  # differences of one file that are named one by one


def as_read(data: Any) -> Any:
    """The data as it comes back from a file."""
    return json.loads(json.dumps(data))


def named(file: str, differ: Iterator[tuple[str, str]]) -> tuple[Discrepancy, ...]:
    """Differences within one file, the first of many."""
    pairs = list(differ)
    more = [(file, f"{len(pairs) - MOST_NAMED} more differences")] if len(pairs) > MOST_NAMED else []
    return found([*((f"{file}, {place}", why) for place, why in pairs[:MOST_NAMED]), *more])


def differences(recorded: Any, again: Any, place: str) -> Iterator[tuple[str, str]]:
    """Where two JSON values differ, numbers by more than their last digits."""
    if isinstance(recorded, dict) and isinstance(again, dict):
        for key in dict.fromkeys((*again, *recorded)):
            inner = f"{place}.{key[:80]}" if place else key[:80]
            if key in recorded and key in again:
                yield from differences(recorded[key], again[key], inner)
            else:
                yield inner, "it is missing" if key in again else "the runs give nothing of that name"
    elif isinstance(recorded, list) and isinstance(again, list) and len(recorded) == len(again):
        for number, (one, other) in enumerate(zip(recorded, again, strict=True)):
            yield from differences(one, other, f"{place}[{number}]")
    elif not _is_same(recorded, again):
        yield place, f"it says {_short(recorded)}, the runs give {_short(again)}"


def _is_same(recorded: Any, again: Any) -> bool:
    if isinstance(recorded, str) and isinstance(again, str):
        return recorded == again or MASK in recorded  # what was secret then need not be so now
    if type(recorded) in (int, float) and type(again) in (int, float):
        try:
            return same_number(float(recorded), float(again))
        except OverflowError:
            return False
    return bool(type(recorded) is type(again) and recorded == again)


def table_differences(path: Path, again: str) -> Iterator[tuple[str, str]]:
    """Where a CSV differs from the text that it would have now, number by number."""
    try:
        if path.is_symlink() or path.stat().st_size > LARGEST_BYTES:
            return  # the fingerprint tells
        rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"), newline="")))
    except (OSError, ValueError, csv.Error) as error:
        yield "the table", f"it cannot be read: {error}"
        return
    fresh = list(csv.reader(io.StringIO(again, newline="")))
    if len(rows) != len(fresh):
        yield "the table", f"it has {len(rows):,} lines, the runs give {len(fresh):,}"
        return
    for number, (row, other) in enumerate(zip(rows, fresh, strict=True), start=1):
        is_same = len(row) == len(other) and all(map(_is_same_cell, row, other))
        if not is_same:
            yield f"line {number}", f"it says {_short(row)}, the runs give {_short(other)}"


def _is_same_cell(recorded: str, again: str) -> bool:
    try:
        return _is_same(float(recorded), float(again))
    except ValueError:
        return _is_same(recorded, again)


def count(data: Any) -> int:
    """How many numbers there are in JSON data."""
    if isinstance(data, dict | list):
        return sum(map(count, data.values() if isinstance(data, dict) else data))
    return int(type(data) in (int, float) and math.isfinite(data))


def _short(value: Any) -> str:
    return repr(value)[:100]
