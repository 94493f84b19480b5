"""Reads a log into `Log`: its faults, metric rows and last lines, in one pass and bounded memory.

    blocks           the file in blocks of whole lines, and its last lines
    words            which lines hold a word of interest, over raw bytes
    context_windows  which of them are read closely, with the lines around them; the rest is counted
    prefixes         who says it, how severe: Ray's, a rank's, a logger's, a container's prefix
    assembling       lines to tracebacks (`tracebacks`, `exceptions`, `chains`, by `traceback_lines`) and to
                     plain faults (`severity`)
    faults           what is kept of them
    rows             metric rows

`read` is what others import.
"""

from collections.abc import Iterable
from pathlib import Path

from harness.diagnosis.reading.assembling import Assembler
from harness.diagnosis.reading.blocks import BLOCK_BYTES, LastLines, blocks
from harness.diagnosis.reading.context_windows import ContextWindows
from harness.diagnosis.reading.faults import Collection
from harness.diagnosis.reading.rows import Rows
from harness.diagnosis.reading.words import compile_words
from harness.diagnosis.types import Log

__all__ = ["read"]


def read(path: Path, words: Iterable[str], block_bytes: int = BLOCK_BYTES) -> Log:
    """Read a log file of any size and content. `words`: plain texts in lower case; lines that hold one are
    kept as faults. Raises OSError where the file cannot be read."""
    path = Path(path)
    size = path.stat().st_size
    sought = compile_words(words)
    windows, last = ContextWindows(sought), LastLines()
    collection, rows = Collection(), Rows(size, block_bytes)
    assembler = Assembler(sought, collection, rows)
    line_count = 0
    for block in blocks(path, block_bytes):
        for item in windows.lines(block):
            assembler.read(item)
        rows.look_into(block)
        last.add(block)
        line_count = block.number + block.data.count(b"\n") - block.data.endswith(b"\n")
    assembler.close(cut=not windows.reached(line_count))
    for item in windows.last_unread():
        assembler.read(item)
    assembler.close(cut=True)
    faults = collection.faults(windows.tallies)
    return Log(path, faults, rows.rows(), "", last.lines(), line_count, size)
