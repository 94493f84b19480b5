"""Files and values of a finished folder, read with care, and compared with those that are made again.

In: paths and texts that anybody may have written. Out: what is there, and where two contents differ. Numbers
may differ in their last digits; a secret that was masked when the first was written agrees with one word.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path, PurePosixPath
from typing import Any

from harness.redaction import MASK
from harness.results.manifest import files_of, relative_name
from harness.results.sources import same_number

_LARGEST_BYTES = 256 << 20


def regular_and_other(folder: Path, apart: Collection[str] = ()) -> Iterator[tuple[str, bool]]:
    """Every file below the folder, as `files_of` finds them, with True for a regular one."""
    for path in files_of(folder, apart):
        with suppress(OSError):  # gone since the folder was listed: its fingerprint tells
            yield relative_name(path, folder), stat.S_ISREG(path.lstat().st_mode)


def read_text(path: Path) -> str:
    """The text of a file of ours. Raises OSError, ValueError."""
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST_BYTES:
        raise ValueError("it is no regular file, or larger than any such file")
    return path.read_bytes().decode("utf-8")


def is_inside(name: str) -> bool:
    """True for the name of a file that stays in its folder."""
    parts = PurePosixPath(name).parts
    return bool(parts) and not name.startswith("/") and ".." not in parts and "\0" not in name


def tree_differences(recorded: Any, again: Any) -> Iterator[tuple[str, Any, Any]]:
    """Where two JSON values differ: the place, and either value, None where there is none."""
    old, new = dict(leaves(recorded)), dict(leaves(again))
    for place in dict.fromkeys((*new, *old)):
        if place not in old or place not in new or not _is_same(old[place], new[place]):
            yield place, old.get(place), new.get(place)


def line_difference(recorded: str, again: str) -> tuple[int, str | None, str | None] | None:
    """The first line in which two texts differ: its number and either line."""
    lines = zip_longest(recorded.splitlines(), again.splitlines())
    for number, (old, new) in enumerate(lines, start=1):
        if old is None or new is None or not _is_same_line(old, new):
            return number, old, new
    return None


def leaves(node: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of JSON data by its place; an item of a list by its id where it has one."""
    if isinstance(node, dict) and node:
        for key, item in node.items():
            yield from leaves(item, f"{place}.{key}" if place else key)
    elif isinstance(node, list) and node:
        for number, item in enumerate(node):
            name = item["id"] if isinstance(item, dict) and isinstance(item.get("id"), str) else number
            yield from leaves(item, f"{place}[{name}]")
    else:
        yield place, node


def _is_same(recorded: Any, again: Any) -> bool:
    if isinstance(recorded, str) and isinstance(again, str):
        return is_same_text(recorded, again)
    if type(recorded) in (int, float) and type(again) in (int, float):
        return _is_same_number(recorded, again)
    return bool(type(recorded) is type(again) and recorded == again)


def _is_same_number(recorded: Any, again: Any) -> bool:
    with suppress(ValueError, OverflowError):
        return same_number(float(recorded), float(again))
    return False


def is_same_text(recorded: str, again: str) -> bool:
    """True if two texts are the same but for secrets that were masked when the first was written: each one
    word of at least six characters."""
    first, *parts = recorded.split(MASK)
    if recorded == again or not parts:
        return recorded == again
    if not again.startswith(first) or not again.endswith(parts[-1]):
        return False
    start = len(first)
    for number, part in enumerate(parts, start=1):
        end = len(again) - len(part) if number == len(parts) else again.find(part, start + 1)
        if end < start or not re.fullmatch(r"\[redacted\]|[^\s<>]{6,}", again[start:end]):
            return False
        start = end + len(part)
    return True


def _is_same_line(recorded: str, again: str) -> bool:
    """True for the same text, or for the same cells of a table."""
    cells, others = recorded.split(","), again.split(",")
    return is_same_text(recorded, again) or (
        len(cells) == len(others)
        and all(_is_same_number(*pair) or is_same_text(*pair) for pair in zip(cells, others, strict=True))
    )
