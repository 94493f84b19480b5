"""Metric rows of a log: all of a short one, evenly thinned out in a long one, at a bounded cost.

Rows that hold NaN or an infinity are found wherever they stand (as lines with a word); the first few and the
last are kept.
"""

from __future__ import annotations

import math

from harness.diagnosis.reading.blocks import Block, text_of
from harness.diagnosis.reading.context_windows import RawLine
from harness.diagnosis.reading.words import expression
from harness.diagnosis.types import SeenRow
from monitors.logs import Line
from monitors.metrics import Row
from monitors.metrics.parser import parse_line

MOST_ROWS = 3000
MOST_BLOCKS = 12  # of a log, in which rows are looked for
MOST_TRIES = 1.25  # lines that look like rows, for each row that is wanted
MOST_BYTES = 1_200_000  # of rows that are parsed, which costs most here
SHORT_LINE = 60  # bytes: with fewer for each row that is wanted, every line is looked at
SAMPLE = 50
MOST_NOT_FINITE = 60
_LOOKS_LIKE_A_ROW = (
    rb"""(?:step|epoch|iter(?:ation)?|loss)['"]?[ \t]{0,2}[:=#\[]?[ \t]{0,2}\d[^\n]*|\}[ \t]*\r?(?:\n|\z)"""
)


class Rows:
    """Collects the rows of a log of `size` bytes."""

    def __init__(self, size: int, block_bytes: int) -> None:
        self._blocks = max(1, math.ceil(size / block_bytes))
        self._seen = 0
        self._found: dict[int, SeenRow] = {}
        self._not_finite: dict[int, SeenRow] = {}
        self._pattern = expression(_LOOKS_LIKE_A_ROW)

    def add(self, raw: RawLine, row: Row) -> None:
        """A row that was met on the way: kept where it is not finite."""
        if all(map(math.isfinite, row.values.values())):
            return
        if len(self._not_finite) > MOST_NOT_FINITE:
            self._not_finite.pop(max(self._not_finite))
        self._not_finite[raw.number] = SeenRow(raw.line, row)

    def look_into(self, block: Block) -> None:
        """Find rows in a block, if it is one of those that are looked into."""
        index, self._seen = self._seen, self._seen + 1
        looked_into = min(self._blocks, MOST_BLOCKS)
        if index * looked_into // self._blocks == (index - 1) * looked_into // self._blocks:
            return
        data = block.data
        most = max(1, MOST_ROWS // looked_into)
        wanted = int(most * MOST_TRIES)
        places = self._places(data, wanted)
        tries = min(wanted, MOST_BYTES // looked_into // _mean_length(data, places))
        stride = math.ceil(len(places) / max(1, tries))
        rows = self._read(block, places[:: max(1, stride)])
        thinned = rows[:: max(1, math.ceil(len(rows) / most))]
        self._found.update((row.line.number, row) for row in (*thinned, *rows[-1:]))

    def _places(self, data: bytes, wanted: int) -> list[int]:
        """Where lines begin that look like rows: about as many as are wanted, evenly over the block; all of
        them where they are few."""
        apart = len(data) / wanted if len(data) > wanted * SHORT_LINE else 0.0
        places: dict[int, None] = {}
        position = 0
        while (hit := self._pattern.search(data, position)) is not None:
            begin, end = hit.span()
            places[data.rfind(b"\n", 0, begin) + 1] = None
            position = max(end, begin + 1, int(apart * (begin // apart + 1)) if apart else 0)
        return list(places)

    def rows(self) -> tuple[SeenRow, ...]:
        """What is kept, in the order of the lines."""
        kept = self._found | self._not_finite
        return tuple(kept[number] for number in sorted(kept))

    @staticmethod
    def _read(block: Block, places: list[int]) -> list[SeenRow]:
        rows: list[SeenRow] = []
        number, position = block.number, 0
        for begin in places:
            number += block.data.count(b"\n", position, begin)
            position = begin
            end = block.data.find(b"\n", begin)
            text = text_of(block.data[begin : end if end >= 0 else len(block.data)])
            if row := parse_line(text):
                rows.append(SeenRow(Line(number, text), row))
        return rows


def _mean_length(data: bytes, places: list[int]) -> int:
    """The mean length of the lines that begin at these places, from a few of them."""
    some = places[:: max(1, len(places) // SAMPLE)]
    lengths = [max(0, data.find(b"\n", begin) - begin) for begin in some]
    return max(1, sum(lengths) // max(1, len(lengths)))
