"""Reads growing, ugly logs: bytes in, clean numbered lines out.

A line's number is its physical one (count of line feeds, from 1), as an editor or `sed -n 12p` shows it.
Escape sequences are removed, a progress bar that redraws itself with carriage returns becomes its last
state, invalid UTF-8 is replaced, and a line longer than LONGEST_LINE bytes is cut and says so. Memory stays
bounded for logs of any size. `read` makes every line; `pick` makes only those that matter, which costs a
fraction.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LONGEST_LINE = 65_536
MOST_MEMORY = 64 << 20  # for the automaton of an expression
READ_BYTES = 8 << 20
TAIL_BYTES = 64 << 10
PIECE_BYTES = 128 << 10  # looked through within 0.1 s even if each line is a row: nobody waits longer for us
ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # control sequences: colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # strings: titles, links
    r"|\x1b[ -/]*[0-~]"  # everything else
)
RAW_ESCAPES = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]"
)
CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
RAW_CONTROLS = bytes({*range(32), 127} - set(b"\t\n\r"))
_PERCENTAGE = re.compile(rb"\d{1,3}%\|")
BAR = re.compile(
    r"\d{1,3}%\s*\|.{0,200}?\|\s*[\d.]{1,30}\w?/[\d.]+\w?"
    r"|(?<!\d)\d+(?:it|ex|tok\w*|B|kB|MB)(?:/s)? \[\d\d:\d\d"
)

_ELAPSED = re.compile(r" \[\d\d:")
_TIMES = re.compile(r"^\s*\[[^\]\n]{0,200}\]")


def expression(pattern: bytes) -> Any:
    """Compile an RE2 expression over raw bytes that looks past case and captures nothing: it searches
    gigabytes of log for many words at once."""
    import re2

    options = re2.Options()
    options.case_sensitive = False
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = MOST_MEMORY
    options.never_capture = True
    options.log_errors = False
    return re2.compile(pattern, options)


@dataclass(frozen=True)
class Line:
    """One line of a log. `number`: physical line number from 1; `text`: cleaned, without the line break.
    `redraws`: what a progress bar showed before on this line, once for each percentage."""

    number: int
    text: str
    redraws: tuple[str, ...] = ()


def clean(raw: bytes, dropped: int = 0) -> str:
    """Return what a terminal would show at last of one line, of which `dropped` bytes were cut."""
    text = raw.decode("utf-8", errors="replace").rstrip()
    if not text.isprintable():
        text = ESCAPES.sub("", text)
    if "\r" in text:
        text = next((part for part in reversed(text.split("\r")) if part.strip()), "")
    if not text.isprintable():
        text = CONTROLS.sub("", text).rstrip()
    return f"{text} …[{dropped} bytes cut]" if dropped else text


def _redraws(raw: bytes) -> list[str]:
    """The states of a progress bar that this line was redrawn with, the first at each percentage."""
    if b"%|" not in raw or b"\r" not in raw:
        return []
    states = [part for part in raw.rstrip().split(b"\r")[:-1] if _PERCENTAGE.search(part)]
    return _at_each_percentage([clean(part) for part in states])


def _at_each_percentage(states: list[str]) -> list[str]:
    shares = [state.partition("%|")[0][-3:] for state in states]
    return [state for place, state in enumerate(states) if place == 0 or shares[place] != shares[place - 1]]


def line_of(number: int, raw: bytes) -> Line:
    """The line that these bytes are."""
    return Line(number, _cut(raw), tuple(_redraws(raw)))


def _cut(raw: bytes) -> str:
    """Return what a terminal would show of a line, cut where it is too long."""
    if len(raw) <= LONGEST_LINE:
        return clean(raw)
    last_redraw = raw[max(0, raw.rstrip(b"\r").rfind(b"\r")) :]
    return clean(last_redraw[:LONGEST_LINE], max(0, len(last_redraw) - LONGEST_LINE))


def _last_text(body: bytes) -> str:
    """Return the last line that says something."""
    end = len(body.rstrip())
    while end > 0:
        begin = body.rfind(b"\n", 0, end) + 1
        if text := _cut(body[begin:end]):
            return text
        end = begin - 1
    return ""


def is_progress_bar(text: str) -> bool:
    """Say whether a line is a progress bar and nothing else (tqdm's and its like)."""
    if not ("%" in text and "|" in text) and _ELAPSED.search(text) is None:
        return False
    match = BAR.search(text)
    return match is not None and not text[match.end() :].rstrip().endswith("}")


def after_bar(text: str) -> str:
    """What another program printed right behind a progress bar, which ends without a line break."""
    match = BAR.search(text)
    return _TIMES.sub("", text[match.end() :], count=1).strip() if match else ""


class LogReader:
    """Reads a growing log piece by piece. `restarts` counts how often the file was truncated or replaced,
    `bytes_read` what was read in all; `last_text` is the last line that says something, where `pick` is used.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.restarts = 0
        self.bytes_read = 0
        self.at_end = True
        self.last_text = ""
        self._reset(None)

    def read(self, final: bool = False, most_bytes: int = READ_BYTES) -> list[Line]:
        """Return the lines completed since the last call; with `final` also a last one without a break.

        Reads at most `most_bytes`; `at_end` says whether that was everything there is.
        """
        lines = list(self._feed(self._next_bytes(most_bytes)))
        return [*lines, *self._unfinished(final)]

    def pick(self, words: Any, every: Callable[[], bool], final: bool, most_bytes: int) -> Iterator[Line]:
        """Read at most `most_bytes` at once, then return those of their lines in which `words` is found.

        `every` is asked before each step: while it says yes, each line is returned. Take all lines before
        the next call. Words are looked for as a terminal would show them, without escapes and controls.
        """
        head, newline, rest = self._next_bytes(most_bytes).partition(b"\n")
        if not newline:
            self._keep(head)
            return iter(self._unfinished(final))
        cut = rest.rfind(b"\n") + 1
        first, body = self._take(head), rest[:cut]
        self._keep(rest[cut:])
        if b"\x1b" in body:
            body = RAW_ESCAPES.sub(b"", body)
        return self._picked(first, body.translate(None, RAW_CONTROLS), words, every, final)

    def skip_to_last(self, count: int) -> None:
        """Begin at the last `count` lines; a file that is not there yet is read from its beginning."""
        with contextlib.suppress(FileNotFoundError):
            self.start_at(*_start_of_tail(self.path, count))

    def start_at(self, offset: int, number: int) -> None:
        """Begin at this byte, where `number` lines have passed."""
        self._offset, self._number = offset, number

    def _reset(self, inode: int | None) -> None:
        self._inode = inode
        self._offset = 0
        self._number = 0
        self._partial = bytearray()
        self._dropped = 0
        self._states: list[str] = []

    def _notice_restart(self, status: os.stat_result) -> None:
        if self._inode is None:
            self._inode = status.st_ino
        elif status.st_ino != self._inode or status.st_size < self._offset:
            self._reset(status.st_ino)
            self.restarts += 1

    def _next_bytes(self, most: int) -> bytes:
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            self.at_end = True
            return b""
        with file:
            self._notice_restart(os.fstat(file.fileno()))
            file.seek(self._offset)
            data = file.read(most)
        self._offset += len(data)
        self.bytes_read += len(data)
        self.at_end = len(data) < most
        return data

    def _unfinished(self, final: bool) -> list[Line]:
        if not (final and self.at_end and (self._partial or self._dropped)):
            return []
        line = self._take(b"")
        self.last_text = line.text or self.last_text
        return [line]

    def _picked(
        self, first: Line, body: bytes, words: Any, every: Callable[[], bool], final: bool
    ) -> Iterator[Line]:
        """Yield the first line, what is picked of the complete lines in `body`, and the unfinished one."""
        self.last_text = first.text or self.last_text
        yield first
        number, begin = first.number, 0
        self._number += body.count(b"\n")
        while begin < len(body):
            passed = begin
            if not every():
                found = words.search(body, begin)
                if found is None:
                    break
                begin = body.rfind(b"\n", begin, found.start()) + 1 or begin
            end = body.find(b"\n", begin)
            number += body.count(b"\n", passed, begin) + 1
            yield line_of(number, body[begin:end])
            begin = end + 1
        self.last_text = _last_text(body) or self.last_text
        yield from self._unfinished(final)

    def _feed(self, chunk: bytes) -> Iterator[Line]:
        *complete, rest = chunk.split(b"\n")
        for piece in complete:
            yield self._take(piece)
        self._keep(rest)

    def _take(self, piece: bytes) -> Line:
        self._keep(piece)
        self._number += 1
        states = _at_each_percentage([*self._states, *_redraws(bytes(self._partial))])
        line = Line(self._number, clean(bytes(self._partial), self._dropped), tuple(states))
        self._partial.clear()
        self._dropped, self._states = 0, []
        return line

    def unfinished_text(self) -> str:
        """What a terminal shows of the line that has not ended yet."""
        return clean(bytes(self._partial), self._dropped)

    def _keep(self, piece: bytes) -> None:
        """Add to the unfinished line; when it grows long, what a redraw has overwritten goes first."""
        self._partial += piece
        if len(self._partial) <= LONGEST_LINE:
            return
        redraw = self._partial.rfind(b"\r", 0, len(self._partial.rstrip(b"\r")))
        if redraw > 0:
            self._states = _at_each_percentage(
                [*self._states, *_redraws(bytes(self._partial[: redraw + 1]) + b"x")]
            )
            del self._partial[:redraw]
            self._dropped = 0
        if len(self._partial) > LONGEST_LINE:
            self._dropped += len(self._partial) - LONGEST_LINE
            del self._partial[LONGEST_LINE:]


def tail(path: Path, count: int) -> list[Line]:
    """Return the last `count` lines with their true numbers; at most the last READ_BYTES are looked at."""
    reader = LogReader(path)
    reader.skip_to_last(count)
    return reader.read(final=True)[-count:]


def lines_at_end(path: Path, most_bytes: int = TAIL_BYTES, unfinished: bool = False) -> list[bytes]:
    """Return the complete lines among the last `most_bytes` of a file, as they are; none of a missing one.
    `unfinished`: also a last one without a break."""
    try:
        with path.open("rb") as file:
            start = max(0, file.seek(0, os.SEEK_END) - most_bytes)
            file.seek(start)
            lines = file.read(most_bytes).split(b"\n")
    except OSError:
        return []
    return lines[1 if start and len(lines) > 1 else 0 : None if unfinished else -1]


def last_useful_lines(path: Path, count: int) -> list[Line]:
    """Return the last `count` lines that say something: no blanks, no progress bars, no repeats in a row."""
    kept: list[Line] = []
    for line in tail(path, max(1000, 20 * count)):
        if line.text and not is_progress_bar(line.text) and (not kept or kept[-1].text != line.text):
            kept.append(line)
    return kept[-count:]


def _start_of_tail(path: Path, count: int) -> tuple[int, int]:
    """Find the byte where the last `count` lines begin, and how many lines come before it."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - READ_BYTES + 1))
        window_start = file.tell()
        window = file.read(READ_BYTES)
        cut = len(window) - 1 if window.endswith(b"\n") else len(window)
        for _ in range(count):
            cut = window.rfind(b"\n", 0, cut)
            if cut < 0:
                break
        start = window_start + cut + 1
        file.seek(0)
        passed, left = 0, start
        while left and (block := file.read(min(left, 1 << 20))):
            passed += block.count(b"\n")
            left -= len(block)
    return start, passed
