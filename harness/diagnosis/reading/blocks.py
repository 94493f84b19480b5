"""A log file as blocks of whole lines, with bounded memory whatever its bytes, and its last lines.

A line that is longer than a block is cut as `monitors.logs` cuts it, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from monitors.logs import LONGEST_LINE, Line, clean, is_progress_bar
from monitors.metrics.parser import parse_line

BLOCK_BYTES = 8 << 20
LAST_LINES = 30
LAST_BYTES = 256 << 10
SHAPE_BYTES = 160
_NOT_IN_SHAPE = b"0123456789abcdefABCDEF"  # digits, also hexadecimal ones
CUT_MARK = " …[{} bytes cut]"
LONGEST_RAW = LONGEST_LINE + 64  # a line that was cut here, with its mark


@dataclass(frozen=True)
class Block:
    """Whole lines; `number` is that of the first."""

    data: bytes
    number: int


def blocks(path: Path, size: int = BLOCK_BYTES) -> Iterator[Block]:
    """Yield the lines of a file in blocks of about `size` bytes. Raises OSError."""
    number, partial, dropped = 1, b"", 0
    with path.open("rb") as file:
        while data := file.read(size):
            end = data.rfind(b"\n") + 1
            if not end:
                partial, dropped = _shortened(partial + data, dropped, max(size, LONGEST_LINE))
                continue
            whole = _marked(partial + data[:end], dropped)
            partial, dropped = data[end:], 0
            yield Block(whole, number)
            number += whole.count(b"\n")
    if partial:
        yield Block(_marked(partial, dropped), number)


def text_of(raw: bytes) -> str:
    """The text of a line, cut where it is too long: what a terminal would show of it at last."""
    if len(raw) <= LONGEST_RAW:
        return clean(raw)
    shown = _last_redraw(raw)
    return clean(shown[:LONGEST_LINE], max(0, len(shown) - LONGEST_LINE))


def shape_of(raw: bytes) -> bytes:
    """What lines of a kind share: the beginning, without digits."""
    return raw.translate(None, _NOT_IN_SHAPE)[:SHAPE_BYTES]


def _shortened(line: bytes, dropped: int, most: int) -> tuple[bytes, int]:
    """What is kept of a line that is not complete, and how many bytes of it are not."""
    if len(line) <= most:
        return line, dropped
    shown = _last_redraw(line)
    dropped = 0 if len(shown) < len(line) else dropped
    return shown[:LONGEST_LINE], dropped + max(0, len(shown) - LONGEST_LINE)


def _marked(lines: bytes, dropped: int) -> bytes:
    """Lines, the first of which says so if it was cut."""
    if not dropped:
        return lines
    line, newline, rest = lines.partition(b"\n")
    line, dropped = _shortened(line, dropped, LONGEST_LINE)
    return line + (CUT_MARK.format(dropped).encode() if dropped else b"") + newline + rest


def _last_redraw(line: bytes) -> bytes:
    return line[max(0, line.rstrip(b"\r").rfind(b"\r")) :]


class LastLines:
    """Keeps the end of what was read, for the last lines that say something."""

    def __init__(self) -> None:
        self._data = b""
        self._end = 1

    def add(self, block: Block) -> None:
        """Go on to a block."""
        missing = LAST_BYTES - len(block.data)
        self._data = (self._data[-missing:] if missing > 0 else b"") + block.data[-LAST_BYTES:]
        self._end = block.number + block.data.count(b"\n")

    def lines(self) -> tuple[Line, ...]:
        """Up to LAST_LINES: no blanks, no progress bars, no repeats in a row, of the metric rows the last."""
        kept: list[Line] = []
        rows: set[bytes] = set()
        for back, raw in enumerate(reversed(self._data.split(b"\n"))):
            text = "" if shape_of(raw) in rows else text_of(raw)
            if not text or is_progress_bar(text) or (kept and kept[-1].text == text):
                continue
            if parse_line(text) is not None:
                rows.add(shape_of(raw))
                if len(rows) > 1:
                    continue
            kept.append(Line(self._end - back, text))
            if len(kept) == LAST_LINES:
                break
        return tuple(reversed(kept))
