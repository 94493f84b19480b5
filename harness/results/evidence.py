"""The lines that a diagnosis cites, looked up in the raw files again.

In: an attempt's diagnosis. Out: `CitedLine`s that say whether the file really holds that text at that line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.results.types import attempt_folder

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


@dataclass(frozen=True)
class CitedLine:
    """A line of an attempt's file as the diagnosis cites it."""

    file: str  # relative to the result folder
    line: int
    text: str
    is_found: bool

    @property
    def place(self) -> str:
        """`attempts/01/pane.log:88`."""
        return f"{self.file}:{self.line}"


def cited_lines(result_dir: Path, number: int, citations: Any) -> tuple[CitedLine, ...]:
    """Look up `[{"file", "line", "text"}]`; files are relative to the attempt's folder."""
    wanted = [
        item for item in citations or () if isinstance(item, Mapping) and isinstance(item.get("line"), int)
    ]
    there: dict[str, dict[int, str]] = {}
    for file in {str(item.get("file", "")) for item in wanted}:
        lines = {int(item["line"]) for item in wanted if str(item.get("file", "")) == file}
        there[file] = _read_lines(result_dir, f"{attempt_folder(number)}/{file}", lines)
    cited = []
    for item in wanted:
        file, line, text = str(item.get("file", "")), int(item["line"]), str(item.get("text", ""))
        found = _is_in(text, there[file].get(line))
        cited.append(CitedLine(f"{attempt_folder(number)}/{file}", line, text, found))
    return tuple(cited)


def _read_lines(result_dir: Path, file: str, lines: set[int]) -> dict[int, str]:
    path = result_dir / file
    if not lines or not path.is_file() or not path.resolve().is_relative_to(result_dir.resolve()):
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
    """Whether the line holds the text, or its beginning where a reader has cut a long line."""
    if line is None:
        return False
    cited = "".join(_ANSI.sub("", text).split())[:200]
    return cited in "".join(_ANSI.sub("", line).split())
