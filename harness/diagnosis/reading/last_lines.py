"""The last lines of a log that say something. In: `Block`s in order. Out: numbered lines."""

from harness.diagnosis.reading.blocks import Block, text_of
from monitors.logs import Line, is_progress_bar
from monitors.metrics import parse_line

MOST = 30
KEPT_BYTES = 256 << 10


class LastLines:
    """Keeps the end of what was read."""

    def __init__(self) -> None:
        self._data = b""
        self._end = 1

    def add(self, block: Block) -> None:
        """Go on to a block."""
        data = block.data[-KEPT_BYTES:]
        if len(data) < KEPT_BYTES:
            data = self._data[len(data) - KEPT_BYTES :] + data
        self._data = data
        self._end = block.number + block.data.count(b"\n")

    def lines(self) -> tuple[Line, ...]:
        """Up to MOST lines: no blanks, no progress bars, no repeats in a row, of the metric rows the last."""
        kept: list[Line] = []
        has_row = False
        raws = self._data.split(b"\n")
        for back, raw in enumerate(reversed(raws)):
            text = text_of(raw)
            if not text or is_progress_bar(text) or (kept and kept[-1].text == text):
                continue
            if parse_line(text) is not None:
                if has_row:
                    continue
                has_row = True
            kept.append(Line(self._end - back, text))
            if len(kept) == MOST:
                break
        return tuple(reversed(kept))
