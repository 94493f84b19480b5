"""Which lines of a log may be metric rows: one expression that is searched in whole blocks of bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from monitors.logs import expression
from monitors.metrics import families
from monitors.metrics.names import names_by_themselves
from monitors.metrics.parser import literal_of

_COUNTERS = (b"step", b"epoch", b"iter", b"episode", b"round", b"batch", b"update")
_TABLES = rb"(?m:^[ \t]*[|\xe2][^\n]*\d)|(?m:^[-+=]{5,}\r?$)"
_HEADINGS = rb"(?m:^[ \t]*(?:test|val|eval)[^\n]{0,30}:[ \t]*\r?$)"


def lines_to_read(words: Iterable[bytes], rows: bool) -> Any:
    """Return an expression that finds every line that holds one of the words or, if `rows`, may be a row."""
    return _compiled(tuple(re.escape(word) for word in words), rows)


@cache
def _compiled(words: tuple[bytes, ...], rows: bool) -> Any:
    if not rows:
        return expression(b"|".join(words))
    own = (literal_of(one.pattern) for one in families.expressions(families.user_folder()))
    literals = [literal.encode() for literal in own if literal and len(literal) > 2]
    named = [name.encode() for name in sorted(names_by_themselves())]
    plain = map(re.escape, (*_COUNTERS, *named, *literals))
    return expression(b"|".join([*words, *plain, rb"\}[ \t\r]*$|\}[ \t\r]*\n", _TABLES, _HEADINGS]))
