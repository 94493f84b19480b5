"""The words by which lines are found among gigabytes: one expression over raw bytes.

In: the words of the signatures. Out: `Words`, whose `hits` find lines; what the words mean is decided later,
by those who read the lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

import re2

MOST_MEMORY = 64 << 20  # for the automaton of all words

# How errors of any kind call themselves; escaped for RE2, case does not matter.
GENERAL = (
    r"error",
    r"exception",
    r"traceback",
    r'\bfile (?:"|\xe2\x80\x9c)',
    r"most recent call",
    r"fatal",
    r"critical",
    r"panic",
    r"abort",
    r"killed",
    r"kill process",
    r"oom-kill",
    r"\boom\b",
    r"fail(?:ed|ure|ing|s)\b",
    r"cannot",
    r"can't",
    r"could not",
    r"couldn't",
    r"unable to",
    r"denied",
    r"refused",
    r"no such",
    r"not found",
    r"terminat",
    r"core dumped",
    r"segfault",
    r"segmentation",
    r"bus error",
    r"illegal instruction",
    r"floating point exc",
    r"breakpoint trap",
    r"limit exceeded",
    r"systemexit",
    r"signal \d",
    r"\bsig(?:kill|term|segv|abrt|bus|int|ill|fpe|hup)",
    r"exit(?:ed| ?code| ?status)\b",
    r"died",
    r"crash",
    r"assert",
    r"nccl warn",
    r"\bxid\b",
    r"interrupt",
    r"timed out",
    r"time limit",
    r"cancelled",
    r"preempt",
    r"out of memory",
    r"unhandled",
    r"uncaught",
    r"undefined symbol",
    r"\[E ?\d{4}",
)
NOT_FINITE = r"""[:=(] ?['"]?-?(?:nan|inf|infinity)\b"""
_REST_OF_LINE = r"[^\n]*"


@dataclass(frozen=True)
class Words:
    """`lines` finds a line from its first word to its end, `named` a word of a signature, `any` any word."""

    lines: re2._Regexp
    named: re2._Regexp | None
    any: re2._Regexp

    def hits(self, block: bytes) -> Iterator[tuple[int, int]]:
        """Where lines with a word are: the first word's beginning and the line's end, one pair per line."""
        for found in self.lines.finditer(block):
            yield found.span()

    def is_named(self, raw: bytes) -> bool:
        """Whether a line holds a word of a signature."""
        return self.named is not None and self.named.search(raw) is not None


def compile_words(words: Iterable[str]) -> Words:
    """Compile the expression for the general words and these."""
    return _compiled(tuple(dict.fromkeys(word.lower() for word in words)))


@cache
def _compiled(words: tuple[str, ...]) -> Words:
    named = [re2.escape(word.encode()) for word in words if word]
    general = [word.encode() for word in GENERAL]
    everything = b"|".join([*general, *named])
    return Words(
        lines=_expression(b"(?:" + everything + b"|" + NOT_FINITE.encode() + b")" + _REST_OF_LINE.encode()),
        named=_expression(b"|".join(named)) if named else None,
        any=_expression(everything),
    )


def _expression(pattern: bytes) -> re2._Regexp:
    options = re2.Options()
    options.case_sensitive = False
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = MOST_MEMORY
    options.never_capture = True
    options.log_errors = False
    return re2.compile(pattern, options)
