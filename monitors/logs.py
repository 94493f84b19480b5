"""Reads growing, ugly logs: bytes in, clean numbered lines out.

A line's number is its physical one (count of line feeds, from 1), as an editor or `sed -n 12p` shows it.
Escape sequences are removed, a progress bar that redraws itself with carriage returns becomes its last
state, invalid UTF-8 is replaced, and a line longer than LONGEST_LINE bytes is cut and says so. Memory stays
bounded for logs of any size.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LONGEST_LINE = 65_536
READ_BYTES = 8 << 20
ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # control sequences: colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # strings: titles, links
    r"|\x1b[ -/]*[0-~]"  # everything else
)
CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
BAR = re.compile(
    r"\d{1,3}%\s*\|.{0,200}?\|\s*[\d.]+\w?/[\d.]+\w?|\d+(?:it|ex|tok\w*|B|kB|MB)(?:/s)? \[\d\d:\d\d"
)


@dataclass(frozen=True)
class Line:
    """One line of a log. `number`: physical line number from 1; `text`: cleaned, without the line break."""

    number: int
    text: str


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


def is_progress_bar(text: str) -> bool:
    """Say whether a line is a progress bar and nothing else (tqdm's and its like)."""
    match = BAR.search(text)
    return match is not None and not text[match.end() :].rstrip().endswith("}")


class LogReader:
    """Reads a growing log piece by piece. `restarts` counts how often the file was truncated or replaced."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.restarts = 0
        self.at_end = True
        self._reset(None)

    def read(self, final: bool = False) -> list[Line]:
        """Return the lines completed since the last call; with `final` also a last one without a break.

        Reads at most READ_BYTES; `at_end` says whether that was everything there is.
        """
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return []
        with file:
            self._notice_restart(os.fstat(file.fileno()))
            file.seek(self._offset)
            data = file.read(READ_BYTES)
            self._offset += len(data)
            self.at_end = len(data) < READ_BYTES
        lines = list(self._feed(data))
        if final and self.at_end and (self._partial or self._dropped):
            lines.append(self._take(b""))
        return lines

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

    def _notice_restart(self, status: os.stat_result) -> None:
        if self._inode is None:
            self._inode = status.st_ino
        elif status.st_ino != self._inode or status.st_size < self._offset:
            self._reset(status.st_ino)
            self.restarts += 1

    def _feed(self, chunk: bytes) -> Iterator[Line]:
        *complete, rest = chunk.split(b"\n")
        for piece in complete:
            yield self._take(piece)
        self._keep(rest)

    def _take(self, piece: bytes) -> Line:
        self._keep(piece)
        self._number += 1
        line = Line(self._number, clean(bytes(self._partial), self._dropped))
        self._partial.clear()
        self._dropped = 0
        return line

    def _keep(self, piece: bytes) -> None:
        """Add to the unfinished line; when it grows long, what a redraw has overwritten goes first."""
        self._partial += piece
        if len(self._partial) <= LONGEST_LINE:
            return
        redraw = self._partial.rfind(b"\r", 0, len(self._partial.rstrip(b"\r")))
        if redraw > 0:
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
