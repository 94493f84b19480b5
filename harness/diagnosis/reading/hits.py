"""Which lines with a word are read closely, and the counting of the others.

In: `Block`s. Out: where lines begin that are wanted, in order. Lines of the same shape (digits out) are
wanted a few times only, and there is a limit for all; after that they are counted. So a flood of errors
costs neither time nor memory: where a block is full of lines with words, its shapes are counted all at once.
The last line of each shape is kept with its surroundings: the same error that was got over a hundred times
may end the training at last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from harness.diagnosis.reading.blocks import Block
from harness.diagnosis.reading.words import Words

EACH_SHAPE = 4  # lines of one shape that are read closely
MOST_SHAPES = 20_000
FIRST_HITS = 3_000  # lines with a word that are read closely, whatever their shapes …
HITS_PER_BLOCK = 100  # … and how many more for each block
FIRST_FRAMES = 20_000  # the same for lines of tracebacks
FRAMES_PER_BLOCK = 400
SHAPE_BYTES = 160
ROUGH_SHAPE_BYTES = 48  # of which one line is looked at, where a flood has more new shapes than …
MOST_NEW_SHAPES = 4_000
FLOOD = 1_500  # lines in a block that are only counted, before the rest of it is taken as a flood
MOST_WINDOWS = 300
WINDOW_BYTES = 12_000  # kept before and after a line
WINDOW_LINES = 24
_NOT_IN_SHAPE = b"0123456789abcdefABCDEF"  # digits, also hexadecimal ones
_FRAME = (b'File "', "File “".encode(), b"Traceback (most")


@dataclass
class Tally:
    """How often lines of a shape came up, and the last one of them that was not read closely."""

    hits: int = 0
    last: int = 0


@dataclass(frozen=True)
class Window:
    """Lines around the line `hit`; `number` is that of the first."""

    data: bytes
    number: int
    hit: int


class Hits:
    """Finds the wanted lines. `tallies`: of lines with a word, by shape."""

    def __init__(self, words: Words) -> None:
        self.tallies: dict[bytes, Tally] = {}
        self._words = words
        self._windows: dict[bytes, Window] = {}
        self._frames_left = FIRST_FRAMES
        self._hits_left = FIRST_HITS

    def find(self, block: Block) -> Iterator[int]:
        """Yield where wanted lines begin."""
        self._hits_left += HITS_PER_BLOCK
        self._frames_left += FRAMES_PER_BLOCK
        data = block.data
        last_unread: dict[bytes, int] = {}
        counted = 0
        for word, end in self._words.hits(data):
            begin = data.rfind(b"\n", 0, word) + 1
            if self._is_wanted(data[begin:end], data[word : word + 20], begin, last_unread):
                yield begin
                continue
            counted += 1
            if counted == FLOOD:
                yield from self._find_in_flood(data, end, last_unread)
                break
        self._keep_windows(block, last_unread)

    def windows(self) -> list[Window]:
        """The last lines of their shapes that were only counted, with the lines around them."""
        return sorted(self._windows.values(), key=lambda window: window.hit)

    def _is_wanted(self, raw: bytes, word: bytes, begin: int, last_unread: dict[bytes, int]) -> bool:
        if word.startswith(_FRAME):
            self._frames_left -= 1
            return self._frames_left >= 0
        shape = shape_of(raw)
        wanted = self._count(shape, 1)
        if not wanted:
            last_unread[shape] = begin
        return wanted

    def _count(self, shape: bytes, times: int) -> bool:
        """Count lines of a shape; whether one of them is wanted."""
        tally = self.tallies.get(shape)
        if tally is None:
            tally = Tally()
            if len(self.tallies) < MOST_SHAPES:
                self.tallies[shape] = tally
        tally.hits += times
        if tally.hits - times >= EACH_SHAPE or self._hits_left <= 0:
            return False
        self._hits_left -= 1
        return True

    def _find_in_flood(self, data: bytes, begin: int, last_unread: dict[bytes, int]) -> Iterator[int]:
        """Go through the rest of a block shape by shape: words are looked for in one line of each."""
        raws = data[begin:].split(b"\n")
        shapes = [shape[:SHAPE_BYTES] for shape in data[begin:].translate(None, _NOT_IN_SHAPE).split(b"\n")]
        counts = Counter(shapes)
        last = dict(zip(shapes, range(len(shapes)), strict=True))
        first = dict(zip(reversed(shapes), range(len(shapes) - 1, -1, -1), strict=True))
        wanted: set[int] = set()
        unread: dict[int, bytes] = {}
        for shape, is_frame in self._shapes_with_words(raws, first):
            if is_frame:
                continue
            if self._count(shape, counts[shape]):
                wanted.add(first[shape])
            if counts[shape] > 1 or first[shape] not in wanted:
                unread[last[shape]] = shape
        for index, raw in enumerate(raws):
            if index in wanted:
                yield begin
            elif index in unread:
                last_unread[unread[index]] = begin
            begin += len(raw) + 1

    def _shapes_with_words(self, raws: list[bytes], first: dict[bytes, int]) -> Iterator[tuple[bytes, bool]]:
        """Those shapes whose first line holds a word, and whether that is one of a traceback."""
        unknown: list[bytes] = []
        for shape in first:
            if shape in self.tallies:
                yield shape, False
            else:
                unknown.append(shape)
        unknown = _some(unknown)
        text = b"\n".join([raws[first[shape]] for shape in unknown])
        index = position = 0
        for word, end in self._words.hits(text):
            index += text.count(b"\n", position, word)
            position = end
            yield unknown[index], text.startswith(_FRAME, word)

    def _keep_windows(self, block: Block, last_unread: dict[bytes, int]) -> None:
        """Note the last line of each shape, and keep the lines around those that come last."""
        number, position = block.number, 0
        places = sorted(last_unread.items(), key=lambda item: item[1])
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


def _some(shapes: list[bytes]) -> list[bytes]:
    """Not too many shapes, of each rough shape one: the first half of them and the last."""
    if len(shapes) <= MOST_NEW_SHAPES:
        return shapes
    rough = list({shape[:ROUGH_SHAPE_BYTES]: shape for shape in shapes}.values())
    half = MOST_NEW_SHAPES // 2
    return rough if len(rough) <= MOST_NEW_SHAPES else [*rough[:half], *rough[-half:]]


def is_of_a_traceback(raw: bytes) -> bool:
    """Whether a line is a traceback's first one, or names a frame."""
    return any(word in raw for word in _FRAME)


def shape_of(raw: bytes) -> bytes:
    """What lines of a kind share: the beginning, without digits."""
    return raw.translate(None, _NOT_IN_SHAPE)[:SHAPE_BYTES]


def _window(data: bytes, hit: int, number: int) -> Window:
    """The lines around the line that begins at byte `hit`."""
    begin = hit
    for _ in range(WINDOW_LINES):
        above = data.rfind(b"\n", max(0, hit - WINDOW_BYTES), max(0, begin - 1))
        if above < 0:
            begin = 0 if begin <= WINDOW_BYTES and hit <= WINDOW_BYTES else begin
            break
        begin = above + 1
    end = hit
    for _ in range(WINDOW_LINES):
        end = data.find(b"\n", end, hit + WINDOW_BYTES) + 1
        if not end:
            end = min(len(data), hit + WINDOW_BYTES)
            break
    return Window(data[begin:end].rstrip(b"\n"), number - data.count(b"\n", begin, hit), hit=number)
