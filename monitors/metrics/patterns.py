"""Patterns that a user names for lines of another shape, and the plain text that a pattern needs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from monitors.metrics.row import Row, number_of, row_of

PATTERN_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{\d*,?\d*\}|.", re.DOTALL)
PATTERN_SIGNS = frozenset(".^$*+?()|")
NAMED_CHARACTER = re.compile(r"\\[xuUN0-9]")


@dataclass(frozen=True)
class MetricPatterns:
    """Patterns a user names for lines of another shape.

    `rows`: regular expressions whose named groups become values; the group `step` is the step, and the groups
    `name` and `value` together are one metric. `first_step`: what proves the first step, or None.
    """

    rows: tuple[re.Pattern[str], ...] = ()
    first_step: re.Pattern[str] | None = None

    @classmethod
    def compile(cls, rows: Sequence[str] = (), first_step: str | None = None) -> MetricPatterns:
        """Compile the patterns. Raises re.error for one that is no regular expression."""
        return cls(tuple(re.compile(row) for row in rows), re.compile(first_step) if first_step else None)

    def words(self) -> tuple[bytes, ...] | None:
        """Return words of which every line that matters to a pattern holds one; None where none are known."""
        patterns = [*self.rows, *([self.first_step] if self.first_step else [])]
        words = [literal_in(pattern) for pattern in patterns]
        return None if None in words else tuple(word.encode() for word in words if word)

    def parse(self, text: str) -> Row | None:
        """Return the row that the first matching pattern finds in a line."""
        for pattern in self.rows:
            if match := pattern.search(text):
                named = {name: raw for name, raw in match.groupdict().items() if raw is not None}
                if "name" in named and "value" in named:
                    named[named.pop("name")] = named.pop("value")
                values = {
                    name: number
                    for name, raw in named.items()
                    if (number := number_of(raw.strip())) is not None
                }
                row = row_of(values)
                if row and row.values:
                    return row
        return None


def literal_in(pattern: re.Pattern[str]) -> str | None:
    """Return the longest plain text outside of groups that whatever the pattern matches must hold, or
    None."""
    return None if pattern.flags & (re.IGNORECASE | re.VERBOSE) else literal_of(pattern.pattern)


def literal_of(pattern: str) -> str | None:
    """Like `literal_in`, for the text of a pattern without flags.

    It errs on the safe side: what is not surely plain text and needed is left out.
    """
    depth, pieces = 0, [""]
    for token in PATTERN_TOKEN.findall(pattern):
        if NAMED_CHARACTER.match(token) or (token == "|" and depth == 0):
            return None
        depth += (token == "(") - (token == ")")
        plain = token.removeprefix("\\")
        is_plain = plain not in PATTERN_SIGNS if plain == token else not plain.isalnum()
        if depth == 0 and len(plain) == 1 and is_plain:
            pieces[-1] += plain
            continue
        if token in ("?", "*") or token[0] == "{":
            pieces[-1] = pieces[-1][:-1]
        pieces.append("")
    return max(pieces, key=len) or None
