"""From blocks of bytes to the lines around words: what is read closely, a small part of a log.

Lines with a word are given with the lines around them. Lines of the same shape (digits out) are wanted a few
times only, and there is a limit for all; after that they are only counted, so that a flood of errors costs no
memory. The last line of each shape is kept with its surroundings: the same error that was got over a hundred
times may end the training at last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter

from harness.diagnosis.reading.blocks import Block, shape_of, text_of
from harness.diagnosis.reading.words import Words
from monitors.logs import Line

AROUND = 24  # lines given before a word, and after it
EACH_SHAPE = 4  # lines of one shape that are read closely
MOST_SHAPES = 20_000
FIRST_HITS = 600  # lines with a word that are read closely, whatever their shapes …
HITS_PER_BLOCK = 100  # … and how many more for each block
FIRST_FRAMES = 5_000  # the same for lines of tracebacks
FRAMES_PER_BLOCK = 400
MOST_WINDOWS = 300
WINDOW_BYTES = 12_000  # kept before and after a line
_HEADER = b"Traceback (most"
_LINE_BREAK = b"\\n"
_FRAMES = (b'File "', "File “".encode())
_TRACEBACK = (_HEADER, *_FRAMES)


class RawLine:
    """A line whose text is cleaned when it is asked for. `hit`: it holds a word, or a frame."""

    def __init__(self, number: int, raw: bytes, hit: bool) -> None:
        self.number = number
        self.raw = raw
        is_header = _HEADER in raw and not _is_quoted(raw, raw.find(_HEADER), len(raw))
        self.hit = hit or is_header or _FRAMES[0] in raw or _FRAMES[1] in raw

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
class Tally:
    """How often lines of a shape came up, and the last one of them that was not read closely."""

    hits: int = 0
    last: int = 0


@dataclass(frozen=True)
class _Window:
    """Lines around the line `hit`; `number` is that of the first."""

    data: bytes
    number: int
    hit: int


class ContextWindows:
    """Gives what is read closely, block by block, and at the end what is worth going back to. `tallies`: of
    lines with a word, by shape."""

    def __init__(self, words: Words) -> None:
        self.tallies: dict[bytes, Tally] = {}
        self._words = words
        self._frames_left = FIRST_FRAMES
        self._hits_left = FIRST_HITS
        self._windows: dict[bytes, _Window] = {}
        self._still_wanted = 0
        self._recalled: list[bytes] = []
        self._next = 1

    def lines(self, block: Block) -> Iterator[RawLine | Gap]:
        """Yield what is read closely of a block, after those before it."""
        data = block.data
        number, position = block.number, 0
        for begin, end, hits in self._stretches(block):
            number += data.count(b"\n", position, begin)
            if number != self._next:
                yield Gap()
                if begin == 0:  # the last lines of the block before, if they are not given yet
                    for back, raw in zip(range(len(self._recalled), 0, -1), self._recalled, strict=True):
                        if number - back >= self._next:
                            yield RawLine(number - back, raw, False)
            position = begin
            for raw in data[begin:end].split(b"\n"):
                if position >= end:
                    break
                yield RawLine(number, raw, position in hits)
                number += 1
                position += len(raw) + 1
            self._next = number
            position = end
        last = data.removesuffix(b"\n").rsplit(b"\n", AROUND)
        self._recalled = [*self._recalled, *last[-AROUND:]][-AROUND:]

    def reached(self, number: int) -> bool:
        """True if the line of this number was given."""
        return number < self._next

    def last_unread(self) -> Iterator[RawLine | Gap]:
        """Yield the last lines of their shapes that were only counted, with the lines around them; each line
        once."""
        hits = {window.hit for window in self._windows.values()}
        following = 0
        for window in sorted(self._windows.values(), key=lambda window: window.hit):
            lines = window.data.split(b"\n")
            if following < window.number:
                yield Gap()
                following = window.number
            for number, raw in enumerate(lines[following - window.number :], following):
                yield RawLine(number, raw, number in hits)
            following = max(following, window.number + len(lines))

    def _stretches(self, block: Block) -> Iterator[tuple[int, int, set[int]]]:
        """The stretches of a block that are read closely: from byte to byte, and where lines with a word
        begin in them."""
        data = block.data
        begin, end, hits = 0, 0, set[int]()
        if self._still_wanted:
            end, self._still_wanted = _after(data, 0, self._still_wanted)
        for hit in self._wanted(block):
            if hit >= end:
                first = _before(data, hit, end)
                if first > end:
                    if end:
                        yield begin, end, hits
                    begin, hits = first, set()
            hits.add(hit)
            end, self._still_wanted = _after(data, hit, AROUND + 1)
        if end:
            yield begin, end, hits

    # --- which lines with a word are wanted --------------------------------------------------------------

    def _wanted(self, block: Block) -> Iterator[int]:
        """Yield where wanted lines begin."""
        self._hits_left += HITS_PER_BLOCK
        self._frames_left += FRAMES_PER_BLOCK
        data = block.data
        last_unread: dict[bytes, int] = {}
        for word, end in self._hits(data):
            begin = data.rfind(b"\n", 0, word) + 1
            if data.startswith(_TRACEBACK, word) and not _is_quoted(data, word, end):
                self._frames_left -= 1
                wanted = self._frames_left >= 0
            else:
                shape = shape_of(data[begin:end])
                tally = self.tallies.get(shape)
                if tally is None:
                    tally = Tally()
                    if len(self.tallies) < MOST_SHAPES:
                        self.tallies[shape] = tally
                tally.hits += 1
                wanted = tally.hits <= EACH_SHAPE and self._hits_left > 0
                self._hits_left -= wanted
                if not wanted:
                    last_unread[shape] = begin
            if wanted:
                yield begin
        self._keep_windows(block, last_unread)

    def _hits(self, data: bytes) -> Iterator[tuple[int, int]]:
        """The lines with a word; those of tracebacks as long as they may be read closely."""
        for word, end in self._words.hits(data):
            yield word, end
            if self._frames_left <= 0:
                yield from self._words.hits(data, end, traceback=False)
                return

    def _keep_windows(self, block: Block, last_unread: dict[bytes, int]) -> None:
        """Note the last line of each shape, and keep the lines around those that come last."""
        number, position = block.number, 0
        places = sorted(last_unread.items(), key=itemgetter(1))
        for index, (shape, begin) in enumerate(places):
            number += block.data.count(b"\n", position, begin)
            position = begin
            if tally := self.tallies.get(shape):
                tally.last = number
            if len(places) - index <= MOST_WINDOWS:
                self._windows.pop(shape, None)
                self._windows[shape] = _window(block.data, begin, number)
        for shape in list(self._windows)[:-MOST_WINDOWS]:
            del self._windows[shape]


def _is_quoted(data: bytes, begin: int, end: int) -> bool:
    """True if a traceback does not begin here but stands in this line as a whole, such as in JSON."""
    return data.startswith(_HEADER, begin) and data.find(_LINE_BREAK, begin, end) >= 0


def _window(data: bytes, hit: int, number: int) -> _Window:
    """The lines around the line that begins at byte `hit`."""
    begin = _before(data, hit, max(0, hit - WINDOW_BYTES))
    if begin and data[begin - 1 : begin] != b"\n":  # the cut went through a line
        begin = min(hit, data.find(b"\n", begin) + 1)
    end = hit + _after(data[hit : hit + WINDOW_BYTES], 0, AROUND)[0]
    return _Window(data[begin:end].rstrip(b"\n"), number - data.count(b"\n", begin, hit), hit=number)


def _before(data: bytes, begin: int, floor: int) -> int:
    """Where the line stands that is AROUND lines above, not before `floor`."""
    for _ in range(AROUND):
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
