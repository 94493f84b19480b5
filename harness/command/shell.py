"""Where the words of a shell text stand: the simple commands in it, each word with its place.

In: the text of a launch command. Out: `Simple` commands in order, and the texts of here-documents. Nothing is
run or expanded; it is read so that one word of a person's own text can be replaced and all others stay.
"""

import re
from dataclasses import dataclass, field
from itertools import takewhile

_SKIPPED = re.compile(r"(?:[ \t\r]|\\\n)+|#[^\n]*")
_REDIRECTION = re.compile(r"(?![<>]\()\d*(&>>|&>|>>|>\||>&|<<<|<<-|<<|<&|<>|>|<)((?:[ \t]|\\\n)*)")
_OPERATOR = re.compile(r"&&|\|\||;;&|;;|;&|\|&|[|;&()\n]")
_WORD_END = re.compile(r"[ \t\r\n;&|)]|[<>](?!\()|(?<![<>$=@?*+!])\(")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_OPENING = frozenset(("for", "while", "until", "if", "case", "select", "function"))
_NAMING = frozenset(("for", "case", "select", "function"))
_CLOSING = frozenset(("done", "fi", "esac"))
_GRAMMAR = _OPENING | _CLOSING | {"then", "do", "else", "elif", "!", "{", "}", "time"}


class CommandError(ValueError):
    """The text cannot be read, or what is asked of it is not clear; the message says where, and what to write
    instead."""


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
    return _Reader(text).read()


@dataclass
class _Reader:
    """What has been read up to `at`. `pending`: here-documents whose bodies are still to come."""

    text: str
    at: int = 0
    commands: list[Simple] = field(default_factory=list)
    heredocs: list[tuple[int, int]] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    pending: list[tuple[str, bool]] = field(default_factory=list)
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
            self.pending.append((target.value, found[1] == "<<-"))
        self.reads_here |= found[1] in ("<<", "<<-", "<<<")

    def skip_heredocs(self) -> None:
        """Pass over the bodies of here-documents that begin here."""
        for delimiter, is_indented in self.pending:
            tabs = r"\t*" if is_indented else ""
            end = re.compile(rf"^{tabs}{re.escape(delimiter)}(?:\n|\Z)", re.MULTILINE).search(
                self.text, self.at
            )
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
        set_first = tuple(takewhile(lambda word: word.is_assignment, words))
        if words:
            program = tuple(words[len(set_first) :])
            self.commands.append(Simple(set_first, program, self.depth > 0, self.reads_here))
        self.words, self.reads_here = [], False

    def word(self) -> Word:
        """The word that begins here."""
        start, value, is_literal = self.at, "", True
        while self.at < len(self.text) and not _WORD_END.match(self.text, self.at):
            piece, literal = self.piece()
            value += piece
            is_literal &= literal
        self.at = max(self.at, start + 1)
        return Word(start, self.at, value, is_literal)

    def piece(self) -> tuple[str, bool]:
        """One character, quotation or expansion: its value, and whether it means itself."""
        text, start = self.text, self.at
        char = text[start]
        if char == "\\":
            if start + 1 == len(text):
                raise self.unreadable(start, "the text ends in a backslash")
            self.at += 2
            return text[start + 1].replace("\n", ""), True
        if char == "'":
            self.at = self.behind("'", start + 1)
            return text[start + 1 : self.at - 1], True
        if char == '"':
            return self.double_quoted()
        if char in "$`<>(":
            self.at = self.expansion_end(start)
            return text[start : self.at], char == "$" and self.at == start + 1
        self.at += 1
        return char, True

    def double_quoted(self) -> tuple[str, bool]:
        text, start, value, is_literal = self.text, self.at, "", True
        self.at += 1
        while text[self.at : self.at + 1] != '"':
            if self.at >= len(text):
                raise self.unreadable(start, 'a quotation that begins with " is not closed')
            char, end = text[self.at], self.at + 1
            if char == "\\" and text[end : end + 1] in ("$", "`", '"', "\\", "\n"):
                char, end = text[end].replace("\n", ""), end + 1
            elif char in "$`":
                end = self.expansion_end(self.at)
                is_literal &= end == self.at + 1
                char = text[self.at : end]
            value, self.at = value + char, end
        self.at += 1
        return value, is_literal

    def expansion_end(self, start: int) -> int:
        """Where `$NAME`, `${…}`, `$(…)`, `$'…'`, a backquoted command, `<(…)` or `(…)` ends."""
        opened = re.compile(r"`|\(|[<>$]\(|\$\{|\$'").match(self.text, start)
        if opened is None:
            name = re.compile(r"\$(?:\w+|[@*#?!$-])").match(self.text, start)
            return name.end() if name else start + 1
        last = opened.group()[-1]
        if last in "`'":
            return self.behind(last, opened.end())
        return self.closed(opened.end() - 1, "()" if last == "(" else "{}")

    def closed(self, start: int, brackets: str) -> int:
        """Behind the bracket that closes the one at `start`; quotations inside are passed over."""
        depth, at = 0, start
        while at < len(self.text):
            char, at = self.text[at], at + 1
            if char == "\\":
                at += 1
            elif char == "'":
                at = self.behind("'", at)
            elif char == '"':
                kept, self.at = self.at, at - 1
                self.double_quoted()
                at, self.at = self.at, kept
            depth += (char == brackets[0]) - (char == brackets[1])
            if depth == 0:
                return at
        raise self.unreadable(start, f"a {brackets[0]!r} is not closed")

    def behind(self, sign: str, start: int) -> int:
        end = self.text.find(sign, start)
        if end < 0:
            raise self.unreadable(start, f"a quotation that begins with {sign} is not closed")
        return end + 1

    def unreadable(self, position: int, why: str) -> CommandError:
        line = self.text.count("\n", 0, position) + 1
        return CommandError(f"the launch command cannot be taken apart: line {line}: {why}")
