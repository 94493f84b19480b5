"""Reads a log into `Log`: its faults, metric rows and last lines, in one pass and bounded memory.

    blocks      the file in blocks of whole lines
    words       which lines hold a word of interest, over raw bytes
    hits        which of them are read closely; a flood is counted
    zones       those lines and the ones around them
    prefixes    who says it, how severe: Ray's, a rank's, a logger's, a container's prefix
    assembling  lines to tracebacks (`tracebacks`, `shapes`, `carriers`, `chains`) and to plain faults
                (`native`)
    faults      what is kept of them
    rows        metric rows

`read` is what others import.
"""

from collections.abc import Iterable
from pathlib import Path

from harness.diagnosis.reading.assembling import Assembler
from harness.diagnosis.reading.blocks import BLOCK_BYTES, blocks
from harness.diagnosis.reading.faults import Collection
from harness.diagnosis.reading.hits import Hits
from harness.diagnosis.reading.last_lines import LastLines
from harness.diagnosis.reading.rows import Rows
from harness.diagnosis.reading.words import compile_words
from harness.diagnosis.reading.zones import Zones
from harness.diagnosis.types import Log

__all__ = ["read"]


def read(path: Path, words: Iterable[str], block_bytes: int = BLOCK_BYTES) -> Log:
    """Read a log file of any size and content. `words`: plain texts in lower case; lines that hold one are
    kept as faults. Raises OSError where the file cannot be read."""
    path = Path(path)
    size = path.stat().st_size
    sought = compile_words(words)
    hits, collection, rows, last = Hits(sought), Collection(), Rows(size, block_bytes), LastLines()
    zones = Zones(hits)
    assembler = Assembler(sought, collection, rows)
    line_count = 0
    for block in blocks(path, block_bytes):
        for item in zones.lines(block):
            assembler.read(item)
        rows.look_into(block)
        last.add(block)
        line_count = block.number + block.data.count(b"\n") - block.data.endswith(b"\n")
    assembler.close(cut=not zones.reached(line_count))
    for item in zones.last_unread():
        assembler.read(item)
    assembler.close(cut=True)
    return Log(
        path,
        faults=collection.faults(hits.tallies),
        rows=rows.rows(),
        last=last.lines(),
        line_count=line_count,
        size=size,
    )
