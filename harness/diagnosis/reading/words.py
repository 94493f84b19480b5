"""The words by which lines are found among gigabytes: one expression over raw bytes.

What the words mean is decided later, by those who read the lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

import re2

from monitors.logs import expression

# How errors of any kind call themselves; escaped for RE2, case does not matter.
_GENERAL = rb"""error, exception, fatal, critical,
panic, abort, killed, kill process, oom-kill, \boom\b, fail(?:ed|ure|ing|s)\b, cannot, can't, could not,
couldn't, unable to, denied, refused, no such, not found, terminat, core dumped, segfault, segmentation,
bus error, illegal instruction, floating point exc, breakpoint trap, limit exceeded, systemexit, signal \d,
\bsig(?:kill|term|segv|abrt|bus|int|ill|fpe|hup), exit(?:ed| ?code| ?status)\b, died, crash, assert,
nccl warn, \bxid\b, interrupt, timed out, time limit, cancelled, preempt, out of memory, unhandled, uncaught,
undefined symbol, \[E ?\d{4}"""
GENERAL = tuple(word.strip() for word in _GENERAL.split(b","))
TRACEBACK = (b"traceback", rb'\bfile (?:"|\xe2\x80\x9c)', b"most recent call")
NOT_FINITE = r"""(?:[:=(]|loss\b|norm\b)[ \t]{0,3}['"]?-?(?:nan|inf|infinity)\b"""


@dataclass(frozen=True)
class Words:
    """`any` finds a word of interest with the rest of its line, `message` the same without the lines of
    tracebacks, `named` a word of a signature."""

    any: re2._Regexp
    message: re2._Regexp
    named: re2._Regexp | None

    def hits(self, block: bytes, begin: int = 0, traceback: bool = True) -> Iterator[tuple[int, int]]:
        """Where lines with a word are: the first word's beginning and the line's end, one pair per line."""
        sought = self.any if traceback else self.message
        return (found.span() for found in sought.finditer(block, begin))

    def is_named(self, raw: bytes) -> bool:
        """True if a line holds a word of a signature."""
        return self.named is not None and self.named.search(raw) is not None


def compile_words(words: Iterable[str]) -> Words:
    """Compile the expression for the general words and these."""
    return _compiled(tuple(dict.fromkeys(word.lower() for word in words)))


@cache
def _compiled(words: tuple[str, ...]) -> Words:
    named = [re2.escape(word.encode()) for word in words if word]
    message = b"|".join([*GENERAL, *named, NOT_FINITE.encode()])
    traceback = b"|".join(TRACEBACK)
    return Words(
        any=expression(b"(?:" + traceback + b"|" + message + rb")[^\n]*"),
        message=expression(b"(?:" + message + rb")[^\n]*"),
        named=expression(b"|".join(named)) if named else None,
    )
