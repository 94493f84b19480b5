"""Which lines of a log may be metric rows: one expression that is searched in whole blocks of bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from monitors.logs import expression
from monitors.metrics import families
from monitors.metrics.names import names_by_themselves, words
from monitors.metrics.patterns import literal_in

_COUNTERS = (b"step", b"epoch", b"iter", b"episode", b"round", b"batch", b"update")
_COUNTED = rb"\b(?:it|ep|eps)[ \t]*[:=#\[(]?[ \t]*\d|(?m:^[ \t]*\[[ \t]*\d+(?:/\d+)?[ \t]*\])"
_NUMBER = rb"""['"]?[ \t]*[:=]?[ \t]*(?:[-+.]?\d|nan|inf)"""
_TABLES = rb"(?m:^[ \t]*[|\xe2][^\n]*\d)|(?m:^[-+=]{5,}\r?$)"
_HEADINGS = rb"(?m:^[ \t]*(?:test|val|eval)[^\n]{0,30}:[ \t]*\r?$)"


def lines_to_read(wanted: Iterable[bytes], rows: bool) -> Any:
    """Return an expression that finds each line that holds one of these words or, if `rows`, may be a row;
    see `finds_every_family`."""
    return _compiled(tuple(re.escape(word) for word in wanted), _texts() if rows else None)


def finds_every_family() -> bool:
    """Say whether each of the user's expressions has fixed text that its lines can be found by."""
    return all(literal_in(one) for each in families.families() if each.is_own for one in each.expressions)


def _texts() -> tuple[str, ...]:
    """Fixed texts of expressions. Lines of shipped ones with a short one hold another word of rows, too."""
    found = ((each.is_own, literal_in(one)) for each in families.families() for one in each.expressions)
    return tuple(text for is_own, text in found if text and (is_own or len(text) > 2))


@cache
def _compiled(wanted: tuple[bytes, ...], texts: tuple[str, ...] | None) -> Any:
    if texts is None:
        return expression(b"|".join(wanted))
    named = [name.encode() for name in sorted(names_by_themselves())]
    plain = map(re.escape, (*_COUNTERS, *named, *(text.encode() for text in texts)))
    common = rb"(?:\b|_)(?:" + b"|".join(name.encode() for name in sorted(words("common"))) + rb")" + _NUMBER
    objects = rb"\}[ \t\r]*$|\}[ \t\r]*\n"
    return expression(b"|".join([*wanted, *plain, common, _COUNTED, objects, _TABLES, _HEADINGS]))
