"""Where the words of a shell text stand: the simple commands in it, each word with its place.

In: the text of a launch command. Out: `Simple` commands in order, and the texts of here-documents. Nothing is
run or expanded; it is read so that one word of a person's own text can be replaced and all others stay.
"""

import re
from dataclasses import dataclass, field
from itertools import takewhile

from harness.errors import UserError

_SKIPPED = re.compile(r"(?:[ \t\r]|\\\n)+|#[^\n]*")
_REDIRECTION = re.compile(r"(?![<>]\()\d*(&>>|&>|>>|>\||>&|<<<|<<-|<<|<&|<>|>|<)((?:[ \t]|\\\n)*)")
_OPERATOR = re.compile(r"&&|\|\||;;&|;;|;&|\|&|[|;&()\n]")
_WORD_END = re.compile(r"[ \t\r\n;&|)]|[<>](?!\()|(?<![<>$=@?*+!])\(")
_BEGINS = re.compile(r"['\"`(]|[<>$]\(|\$[{']|\$(?:\w+|[@*#?!$-])")
_CLOSES = {"'": "'", '"': '"', "`": "`", "(": ")", "{": "}"}
_INNER = {
    '"': re.compile(r"[\\`]|\$[({]"),
    "}": re.compile(r"[\\'\"`]|\$[({]"),
    ")": re.compile(r"[\\'\"`(]|\$[({]"),
}
"""What closes a quotation or an expansion → what begins another inside of it."""
_ESCAPED = re.compile(r"\\([$`\"\\\n])")
_EXPANDS = re.compile(r"`|\$[\w({@*#?!$-]")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_OPENING = frozenset(("for", "while", "until", "if", "case", "select", "function"))
_NAMING = frozenset(("for", "case", "select", "function"))
_CLOSING = frozenset(("done", "fi", "esac"))
_GRAMMAR = _OPENING | _CLOSING | {"then", "do", "else", "elif", "!", "{", "}", "time"}


class CommandError(UserError, ValueError):
    """The text, or what is asked of it, is not clear; the message says where, and what to write."""


@dataclass(frozen=True)
class Word:
    """One word. `text[start:end]` of the whole is how it is written, `value` what a program is given, as far
    as the shell expands nothing in it (`is_literal`)."""

    start: int
    end: int
    value: str
    is_literal: bool

    @property
    def is_assignment(self) -> bool:
        return _ASSIGNMENT.match(self.value) is not None


@dataclass(frozen=True)
class Simple:
    """One simple command: `assignments` in front of its `words`. `is_nested`: inside a loop, a condition or a
    function. `reads_here`: a here-document or here-string is its input."""

    assignments: tuple[Word, ...]
    words: tuple[Word, ...]
    is_nested: bool
    reads_here: bool

    @property
    def values(self) -> list[str]:
        """Its words without their places."""
        return [word.value for word in self.words]


@dataclass(frozen=True)
class ShellText:
    """A text taken apart. `heredocs`: places of the bodies of here-documents."""

    text: str
    commands: tuple[Simple, ...]
    heredocs: tuple[tuple[int, int], ...]

    def line(self, position: int) -> int:
        """The number of the line at this position."""
        return self.text.count("\n", 0, position) + 1


def read(text: str) -> ShellText:
    """Take a shell text apart. Raises CommandError for quotes or here-documents that are not closed."""
    try:
        return _Reader(text).read()
    except RecursionError:
        raise CommandError(
            "the launch command cannot be taken apart: line 1: it is nested too deeply"
        ) from None


@dataclass
class _Reader:
    """What has been read up to `at`. `pending`: here-documents whose bodies are still to come."""

    text: str
    at: int = 0
    commands: list[Simple] = field(default_factory=list)
    heredocs: list[tuple[int, int]] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    pending: list[tuple[str, str]] = field(default_factory=list)
    depth: int = 0
    reads_here: bool = False

    def read(self) -> ShellText:
        while self.at < len(self.text):
            if found := _SKIPPED.match(self.text, self.at):
                self.at = found.end()
            elif found := _REDIRECTION.match(self.text, self.at):
                self.redirect(found)
            elif found := _OPERATOR.match(self.text, self.at):
                self.end_command()
                self.at = found.end()
                if found.group() == "\n":
                    self.skip_heredocs()
            else:
                self.words.append(self.word())
        self.end_command()
        self.skip_heredocs()
        return ShellText(self.text, tuple(self.commands), tuple(self.heredocs))

    def redirect(self, found: re.Match[str]) -> None:
        self.at = found.end()
        if self.text[self.at : self.at + 1] in ("", "\n"):
            raise self.unreadable(self.at, f"a redirection {found[1]!r} without a target")
        target = self.word()
        if found[1] in ("<<", "<<-"):
            tabs = r"\t*" if found[1] == "<<-" else ""
            self.pending.append((target.value, rf"(?m)^{tabs}{re.escape(target.value)}(?:\n|\Z)"))
        self.reads_here |= found[1] in ("<<", "<<-", "<<<")

    def skip_heredocs(self) -> None:
        """Pass over the bodies of here-documents that begin here."""
        for delimiter, pattern in self.pending:
            end = re.compile(pattern).search(self.text, self.at)
            if end is None:
                raise self.unreadable(self.at, f"the here-document {delimiter!r} is not closed")
            self.heredocs.append((self.at, end.end()))
            self.at = end.end()
        self.pending = []

    def end_command(self) -> None:
        """What was read up to here is one simple command, unless it is only a word of the shell's grammar."""
        words, opened = self.words, 0
        while words and words[0].is_literal and (name := words[0].value) in _GRAMMAR:
            self.depth -= name in _CLOSING
            opened += name in _OPENING
            words = [] if name in _NAMING else words[1:]
        self.depth += opened
        if words:
            set_first = tuple(takewhile(lambda word: word.is_assignment, words))
            program = tuple(words[len(set_first) :])
            self.commands.append(Simple(set_first, program, self.depth > 0, self.reads_here))
        self.words, self.reads_here = [], False

    def word(self) -> Word:
        """The word that begins here."""
        start, value, is_literal = self.at, "", True
        while self.at < len(self.text) and not _WORD_END.match(self.text, self.at):
            begin, self.at = self.at, self.behind(self.at)
            piece, means_itself = _meaning(self.text[begin : self.at])
            value, is_literal = value + piece, is_literal and means_itself
        self.at = max(self.at, start + 1)
        return Word(start, self.at, value, is_literal)

    def behind(self, start: int) -> int:
        """Where the character, quotation or expansion that begins here ends."""
        begun = _BEGINS.match(self.text, start)
        at = begun.end() if begun else start + 1
        if self.text[start] == "\\":
            if at == len(self.text):
                raise self.unreadable(start, "the text ends in a backslash")
            return at + 1
        closing = _CLOSES.get(self.text[at - 1]) if begun else None
        if closing is None:
            return at
        inner = _INNER.get(closing)
        while at < len(self.text) and self.text[at] != closing:
            at = self.behind(at) if inner and inner.match(self.text, at) else at + 1
        if at >= len(self.text):
            raise self.unreadable(start, f"what begins with {self.text[start]} is not closed")
        return at + 1

    def unreadable(self, position: int, why: str) -> CommandError:
        line = self.text.count("\n", 0, position) + 1
        return CommandError(f"the launch command cannot be taken apart: line {line}: {why}")


def _meaning(piece: str) -> tuple[str, bool]:
    """What a character, quotation or expansion means, and whether it means itself."""
    if piece[0] == "'":
        return piece[1:-1], True
    if piece[0] == '"':
        expands = _EXPANDS.search(_ESCAPED.sub(" ", piece))
        return _ESCAPED.sub(lambda found: found[1].replace("\n", ""), piece[1:-1]), expands is None
    if piece[0] == "\\":
        return piece[1:].replace("\n", ""), True
    return piece, len(piece) == 1
