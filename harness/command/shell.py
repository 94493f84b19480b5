"""Where the words of a shell text stand: the simple commands in it, each word with its place.

In: the text of a launch command. Out: `Simple` commands in order, and the texts of here-documents. Nothing is
run or expanded; it is read so that one word of a person's own text can be replaced and all others stay.
"""

import re
from dataclasses import dataclass, field

_OPERATORS = ("&&", "||", ";;&", ";;", ";&", "|&", "|", ";", "&", "(", ")", "\n")
_REDIRECTION = re.compile(r"\d*(?:&>>|&>|>>|>\||>&|<<<|<<-|<<|<&|<>|>|<)")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_LOOPS = {"for": 1, "while": 1, "until": 1, "if": 1, "case": 1, "select": 1, "function": 1}
_ENDS = {"done", "fi", "esac"}
_NO_COMMAND = frozenset(("then", "do", "else", "elif", "!", "{", "}", "time"))


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


@dataclass(frozen=True)
class ShellText:
    """A text taken apart. `heredocs`: places of the bodies of here-documents."""

    text: str
    commands: tuple[Simple, ...]
    heredocs: tuple[tuple[int, int], ...]

    def line(self, position: int) -> int:
        """The number of the line at this position."""
        return self.text.count("\n", 0, position) + 1


@dataclass
class _Reading:
    """What has been read so far."""

    text: str
    commands: list[Simple] = field(default_factory=list)
    heredocs: list[tuple[int, int]] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    pending: list[tuple[str, bool]] = field(default_factory=list)
    depth: int = 0
    reads_here: bool = False


def read(text: str) -> ShellText:
    """Take a shell text apart. Raises CommandError for quotes or here-documents that are not closed."""
    reading = _Reading(text)
    position = 0
    while position < len(text):
        position = _next(reading, position)
    _end_command(reading)
    if reading.pending:
        raise _unreadable(text, len(text), f"the here-document {reading.pending[0][0]!r} is not closed")
    return ShellText(text, tuple(reading.commands), tuple(reading.heredocs))


def _next(reading: _Reading, position: int) -> int:
    """Read what stands at `position`; where the next thing begins."""
    text = reading.text
    if text[position] in " \t\r":
        return position + 1
    if text.startswith("\\\n", position):
        return position + 2
    if text[position] == "#":
        end = text.find("\n", position)
        return len(text) if end < 0 else end
    redirection = _REDIRECTION.match(text, position)
    if redirection and not text.startswith(("<(", ">("), position):
        return _redirect(reading, redirection)
    operator = next((each for each in _OPERATORS if text.startswith(each, position)), None)
    if operator is not None:
        _end_command(reading)
        position += len(operator)
        return _skip_heredocs(reading, position) if operator == "\n" else position
    word = _word(text, position)
    reading.words.append(word)
    return word.end


def _redirect(reading: _Reading, found: re.Match[str]) -> int:
    position = found.end()
    while reading.text[position : position + 1] in (" ", "\t") or reading.text.startswith("\\\n", position):
        position += 2 if reading.text[position] == "\\" else 1
    if position >= len(reading.text) or reading.text[position] == "\n":
        raise _unreadable(reading.text, position, f"a redirection {found.group()!r} without a target")
    target = _word(reading.text, position)
    sign = found.group().lstrip("0123456789")
    if sign in ("<<", "<<-"):
        reading.pending.append((target.value, sign == "<<-"))
    reading.reads_here |= sign in ("<<", "<<-", "<<<")
    return target.end


def _skip_heredocs(reading: _Reading, position: int) -> int:
    """Where the text goes on behind the bodies of here-documents that begin here."""
    for delimiter, is_indented in reading.pending:
        start = position
        while True:
            if position >= len(reading.text):
                raise _unreadable(reading.text, start, f"the here-document {delimiter!r} is not closed")
            end = reading.text.find("\n", position)
            end = len(reading.text) if end < 0 else end
            line = reading.text[position:end]
            position = min(end + 1, len(reading.text))
            if (line.lstrip("\t") if is_indented else line) == delimiter:
                break
        reading.heredocs.append((start, position))
    reading.pending = []
    return position


def _end_command(reading: _Reading) -> None:
    """What was read up to here is one simple command, unless it is only a word of the shell's grammar."""
    words = reading.words
    opened = 0
    while words and words[0].is_literal and words[0].value in (*_LOOPS, *_ENDS, *_NO_COMMAND):
        name = words[0].value
        reading.depth -= name in _ENDS
        opened += name in _LOOPS
        words = [] if name in ("for", "case", "select", "function") else words[1:]
    assignments = 0
    while assignments < len(words) and words[assignments].is_assignment:
        assignments += 1
    reading.depth += opened
    if words:
        reading.commands.append(
            Simple(
                tuple(words[:assignments]), tuple(words[assignments:]), reading.depth > 0, reading.reads_here
            )
        )
    reading.words, reading.reads_here = [], False


def _word(text: str, start: int) -> Word:
    """The word that begins at `start`."""
    value: list[str] = []
    is_literal = True
    position = start
    while position < len(text):
        char = text[position]
        if char in " \t\r\n;&|)" or (char in "<>" and text[position : position + 2] not in ("<(", ">(")):
            break
        if char == "(" and not (position and text[position - 1] in "<>$=@?*+!"):
            break
        piece, position, literal = _piece(text, position)
        value.append(piece)
        is_literal &= literal
    return Word(start, max(position, start + 1), "".join(value), is_literal)


def _piece(text: str, position: int) -> tuple[str, int, bool]:
    """(value, where it ends, whether it means itself) of one character, quotation or expansion."""
    char = text[position]
    if char == "\\":
        if position + 1 == len(text):
            raise _unreadable(text, position, "the text ends in a backslash")
        return text[position + 1].replace("\n", ""), position + 2, True
    if char == "'":
        end = _find(text, "'", position + 1)
        return text[position + 1 : end], end + 1, True
    if char == '"':
        return _double_quoted(text, position)
    if char in "$`<>(":
        end = _expansion_end(text, position)
        is_plain = char == "$" and end == position + 1
        return text[position:end], end, is_plain
    return char, position + 1, True


def _double_quoted(text: str, start: int) -> tuple[str, int, bool]:
    value: list[str] = []
    is_literal = True
    position = start + 1
    while position < len(text) and text[position] != '"':
        char = text[position]
        if char == "\\" and text[position + 1 : position + 2] in ("$", "`", '"', "\\", "\n"):
            value.append("" if text[position + 1] == "\n" else text[position + 1])
            position += 2
        elif char in "$`":
            end = _expansion_end(text, position)
            is_literal &= end == position + 1
            value.append(text[position:end])
            position = end
        else:
            value.append(char)
            position += 1
    if position >= len(text):
        raise _unreadable(text, start, 'a quotation that begins with " is not closed')
    return "".join(value), position + 1, is_literal


def _expansion_end(text: str, position: int) -> int:
    """Where `$NAME`, `${…}`, `$(…)`, `$'…'`, a backquoted command, `<(…)` or `(…)` ends."""
    if text[position] == "`":
        return _find(text, "`", position + 1) + 1
    if text[position] == "(":
        return _closed(text, position, "()")
    if text[position] in "<>" or text.startswith("$(", position):
        return _closed(text, position + 1, "()")
    if text.startswith("${", position):
        return _closed(text, position + 1, "{}")
    if text.startswith("$'", position):
        return _find(text, "'", position + 2) + 1
    name = re.compile(r"\$(?:\w+|[@*#?!$-])").match(text, position)
    return name.end() if name else position + 1


def _closed(text: str, start: int, brackets: str) -> int:
    """The position behind the bracket that closes the one at `start`; quotations inside are passed over."""
    depth, position = 0, start
    while position < len(text):
        char = text[position]
        if char == "\\":
            position += 2
            continue
        if char == "'":
            position = _find(text, "'", position + 1)
        elif char == '"':
            position = _double_quoted(text, position)[1] - 1
        depth += (char == brackets[0]) - (char == brackets[1])
        position += 1
        if depth == 0:
            return position
    raise _unreadable(text, start, f"a {brackets[0]!r} is not closed")


def _find(text: str, sign: str, start: int) -> int:
    end = text.find(sign, start)
    if end < 0:
        raise _unreadable(text, start, f"a quotation that begins with {sign} is not closed")
    return end


def _unreadable(text: str, position: int, why: str) -> CommandError:
    line = text.count("\n", 0, position) + 1
    return CommandError(f"the launch command cannot be taken apart: line {line}: {why}")
