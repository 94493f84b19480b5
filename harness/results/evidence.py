"""The lines that a diagnosis cites, looked up in the raw files again.

In: an attempt's diagnosis. Out: `CitedLine`s that say whether the file really holds that text at that line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.attempt import Evidence
from harness.results.sources import ANSI, SourceError, SourceReader
from harness.results.types import Source, attempt_folder


@dataclass(frozen=True)
class CitedLine:
    """A line of an attempt's file as the diagnosis cites it; `file` is relative to the result folder."""

    file: str
    line: int
    text: str
    is_found: bool

    @property
    def place(self) -> str:
        """`attempts/01/pane.log:88`."""
        return f"{self.file}:{self.line}"


def cited_lines(result_dir: Path, number: int, citations: Sequence[Evidence]) -> tuple[CitedLine, ...]:
    """Look the lines up; their files are relative to the attempt's folder."""
    reader, folder = SourceReader(result_dir), attempt_folder(number)
    reader.fetch(Source(f"{folder}/{one.file}", one.line) for one in citations)
    cited = [(f"{folder}/{one.file}", one.line, one.text) for one in citations]
    return tuple(CitedLine(*each, _is_found(reader, *each)) for each in cited)


def _is_found(reader: SourceReader, file: str, line: int, text: str) -> bool:
    """True if the line holds the text, or its beginning where a reader has cut a long line."""
    try:
        there = reader.text(file, line)
    except SourceError:
        return False
    return "".join(ANSI.sub("", text).split())[:200] in "".join(ANSI.sub("", there).split())
