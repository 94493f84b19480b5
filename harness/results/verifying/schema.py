"""What the recorded parts of result.json and finish.flag must look like before anything in them is used.

In: JSON from a folder that anybody may have written. Out: typed records, or the reason why there are none.
Names of files stay inside the folder; numbers of lines are bounded.
"""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from harness.results.types import Recipe, Unit

LARGEST_BYTES = 256 << 20
_MOST_LINES = 1_000_000  # that one number is computed from


class UnreadableError(Exception):
    """A file is not what it must be; the message says why."""


def _inside(name: str) -> str:
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\0" in name:
        raise ValueError("this name leads out of the folder")
    return name


Name = Annotated[str, Field(min_length=1, max_length=4096), AfterValidator(_inside)]
Line = Annotated[int, Field(ge=1, le=10**12)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ListedFile(_Part):
    """One file with its fingerprint."""

    path: Name
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    bytes: Annotated[int, Field(ge=0)]


class _Source(_Part):
    file: Name
    line: Line | None = None
    last_line: Line | None = None
    key: str | None = None


class _Interval(_Part):
    low: float
    high: float
    method: str
    n: int


class RecordedFact(_Part):
    """One number as `fact_to_json` writes it."""

    id: str
    label: str
    value: float | None
    text: str
    unit: Unit
    recipe: Recipe
    sources: Annotated[list[_Source], Field(min_length=1)]
    measure: str = ""
    interval_95: _Interval | None = None
    note: str = ""
    withheld: str = ""

    @property
    def lines(self) -> int:
        """How many lines it is computed from."""
        return sum((item.last_line or item.line or 1) - (item.line or 1) + 1 for item in self.sources)


class RecordedFigure(BaseModel):
    """One figure: its files are its drawing twice (SVG, PNG) and its data (CSV)."""

    title: str
    files: list[Name]


FILES = TypeAdapter(list[ListedFile])
FIGURES = TypeAdapter(list[RecordedFigure])


def read_object(path: Path) -> tuple[str, dict[str, Any]]:
    """The text of a file of ours and the JSON object in it. Raises UnreadableError; FileNotFoundError."""
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        raise UnreadableError("it is no regular file")
    if found.st_size > LARGEST_BYTES:
        raise UnreadableError(f"{found.st_size:,} bytes are more than any such file has")
    try:
        text = path.read_bytes().decode("utf-8")
        data = json.loads(text)
    except OSError as error:
        raise UnreadableError(f"it cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"it is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise UnreadableError("it is not a JSON object")
    return text, data


def listed_files(data: Any) -> list[ListedFile]:
    """Files with their fingerprints. Raises UnreadableError."""
    try:
        return FILES.validate_python(data)
    except (ValidationError, RecursionError) as error:
        raise UnreadableError(_why(error)) from error


def figures(data: Any) -> list[RecordedFigure]:
    """The figures of a result.json. Raises UnreadableError."""
    try:
        return FIGURES.validate_python(data)
    except (ValidationError, RecursionError) as error:
        raise UnreadableError(_why(error)) from error


def recorded_fact(data: Any) -> RecordedFact:
    """One fact, which names no more lines than there can be. Raises UnreadableError."""
    try:
        fact = RecordedFact.model_validate(data)
    except (ValidationError, RecursionError, OverflowError) as error:
        raise UnreadableError(_why(error)) from error
    if not 0 < fact.lines <= _MOST_LINES:
        raise UnreadableError(f"it is said to be computed from {fact.lines:,} lines")
    return fact


def _why(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return f"it is not as the harness writes it ({type(error).__name__})"
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = re.sub(r"\s+", " ", ".".join(map(str, first["loc"])))[:200]
    said = first["msg"].removeprefix("Value error, ")
    return f"{place}: {said}" if place else said
