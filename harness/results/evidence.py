"""The lines that a diagnosis cites, looked up in the raw files again.

In: an attempt's diagnosis. Out: `CitedLine`s that say whether the file really holds that text at that line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.attempt import Evidence
from harness.results.types import attempt_folder

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


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
    folder = attempt_folder(number)
    there = {
        name: _read_lines(result_dir, f"{folder}/{name}", {one.line for one in citations if one.file == name})
        for name in {one.file for one in citations}
    }
    return tuple(
        CitedLine(f"{folder}/{one.file}", one.line, one.text, _is_in(one.text, there[one.file].get(one.line)))
        for one in citations
    )


def _read_lines(result_dir: Path, file: str, lines: set[int]) -> dict[int, str]:
    path = result_dir / file
    if not path.is_file() or not path.resolve().is_relative_to(result_dir.resolve()):
        return {}
    found = {}
    with path.open("rb") as stream:
        for number, content in enumerate(stream, start=1):
            if number in lines:
                found[number] = content.decode("utf-8", errors="replace")
            if number >= max(lines):
                break
    return found


def _is_in(text: str, line: str | None) -> bool:
    """True if the line holds the text, or its beginning where a reader has cut a long line."""
    if line is None:
        return False
    cited = "".join(_ANSI.sub("", text).split())[:200]
    return cited in "".join(_ANSI.sub("", line).split())
