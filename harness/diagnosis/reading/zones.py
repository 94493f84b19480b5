"""From blocks of bytes to the lines around words: what is read closely, a small part of a log.

In: `Block`s, and which of their lines are wanted (`hits`). Out: `RawLine`s in order, those with a word
marked, with the lines around them; `Gap` where lines were left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from harness.diagnosis.reading.blocks import Block, text_of
from harness.diagnosis.reading.hits import Hits, is_of_a_traceback, shape_of
from monitors.logs import Line

BEFORE = 24  # lines given before a word, and after it
AFTER = 24


class RawLine:
    """A line whose text is cleaned when it is asked for. `hit`: it holds a word, or a frame."""

    def __init__(self, number: int, raw: bytes, hit: bool) -> None:
        self.number = number
        self.raw = raw
        self.hit = hit or is_of_a_traceback(raw)

    @cached_property
    def line(self) -> Line:
        return Line(self.number, text_of(self.raw))

    @property
    def text(self) -> str:
        return self.line.text

    @cached_property
    def shape(self) -> bytes:
        return shape_of(self.raw)


class Gap:
    """Here lines were left out."""


@dataclass
class _Wanted:
    """A stretch of a block that is read closely: from byte `begin` to `end`; `hits` are lines' beginnings."""

    begin: int
    end: int
    hits: set[int] = field(default_factory=set)


class Zones:
    """Gives what is read closely, block by block, and at the end what is worth going back to."""

    def __init__(self, hits: Hits) -> None:
        self._hits = hits
        self._still_wanted = 0
        self._recalled: list[bytes] = []
        self._next = 1

    def lines(self, block: Block) -> Iterator[RawLine | Gap]:
        """Yield what is read closely of a block, after those before it."""
        data = block.data
        number, position = block.number, 0
        for wanted in self._wanted(block):
            number += data.count(b"\n", position, wanted.begin)
            if number != self._next:
                yield Gap()
                if wanted.begin == 0:
                    yield from self._recall(number)
            position = wanted.begin
            for raw in data[wanted.begin : wanted.end].split(b"\n"):
                if position >= wanted.end:
                    break
                yield RawLine(number, raw, position in wanted.hits)
                number += 1
                position += len(raw) + 1
            self._next = number
            position = wanted.end
        self._recalled = [*self._recalled, *_last_lines(data, BEFORE)][-BEFORE:]

    def reached(self, number: int) -> bool:
        """Whether the line of this number was given."""
        return number < self._next

    def last_unread(self) -> Iterator[RawLine | Gap]:
        """Yield the last lines of their shapes that were only counted, each with the lines around it."""
        for window in self._hits.windows():
            yield Gap()
            for number, raw in enumerate(window.data.split(b"\n"), window.number):
                yield RawLine(number, raw, number == window.hit)

    def _recall(self, number: int) -> Iterator[RawLine]:
        """The last lines of the block before, if they are not given yet."""
        for back, raw in zip(range(len(self._recalled), 0, -1), self._recalled, strict=True):
            if number - back >= self._next:
                yield RawLine(number - back, raw, False)

    def _wanted(self, block: Block) -> Iterator[_Wanted]:
        data = block.data
        now = _Wanted(0, 0)
        if self._still_wanted:
            now.end, self._still_wanted = _after(data, 0, self._still_wanted)
        for begin in self._hits.find(block):
            if begin >= now.end:
                first = _before(data, begin, now.end)
                if first > now.end:
                    if now.end:
                        yield now
                    now = _Wanted(first, begin)
            now.hits.add(begin)
            now.end, self._still_wanted = _after(data, begin, AFTER + 1)
        if now.end:
            yield now


def _before(data: bytes, begin: int, floor: int) -> int:
    """Where the line stands that is BEFORE lines above, not before `floor`."""
    for _ in range(BEFORE):
        if begin <= floor:
            return floor
        begin = data.rfind(b"\n", floor, begin - 1) + 1 or floor
    return max(begin, floor)


def _after(data: bytes, begin: int, count: int) -> tuple[int, int]:
    """Where `count` lines end, and how many of them the block lacks."""
    for left in range(count, 0, -1):
        begin = data.find(b"\n", begin) + 1
        if not begin:
            return len(data), left
    return begin, 0


def _last_lines(data: bytes, count: int) -> list[bytes]:
    end = len(data) - 1 if data.endswith(b"\n") else len(data)
    begin = end
    for _ in range(count):
        begin = data.rfind(b"\n", 0, begin)
        if begin < 0:
            break
    return data[begin + 1 : end].split(b"\n")
