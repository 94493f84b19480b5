"""The first rows of a data file, whatever its format.

In: a path. Out: `Sample`, or a `DataFileError` with where and why. Reads a bounded part of the file.
"""

import csv
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FIRST_ROWS = 50
_MOST_JSON_BYTES = 64 * 2**20
READABLE = (".jsonl", ".json", ".csv", ".tsv", ".parquet")


class DataFileError(Exception):
    """The file cannot be read as rows; the message says where and why."""


@dataclass(frozen=True)
class Sample:
    """Columns of a data file and its first rows; () for a file without rows."""

    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]


def sample(path: Path, count: int = FIRST_ROWS) -> Sample:
    """The columns and the first `count` rows. Raises DataFileError."""
    try:
        if path.suffix == ".parquet":
            return _of_parquet(path, count)
        if path.suffix in (".csv", ".tsv"):
            return _of_csv(path, count)
        return _of_json(path, count)
    except UnicodeDecodeError as error:
        raise DataFileError(f"not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise DataFileError(error.strerror or str(error)) from None


def _of_json(path: Path, count: int) -> Sample:
    if path.suffix == ".json" and (whole := _whole_json(path)) is not None:
        rows = whole[:count]
    else:
        rows = list(itertools.islice(_lines(path), count))
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise DataFileError(f"row {number} is a {type(row).__name__}, not an object")
    columns: dict[str, None] = {}
    for row in rows:
        columns.update(dict.fromkeys(map(str, row)))
    return Sample(tuple(columns), tuple(rows))


def _whole_json(path: Path) -> list[Any] | None:
    """The list in a JSON file, or the one list inside its object; None where it is JSON lines or huge."""
    if path.stat().st_size > _MOST_JSON_BYTES:
        return None
    text = path.read_text(encoding="utf-8-sig")
    try:
        found = json.loads(text)
    except ValueError as error:
        if text.lstrip().startswith("[") or text.count("\n") < 2:
            raise DataFileError(f"not JSON: {error}") from None
        return None
    if isinstance(found, list):
        return found
    lists = [value for value in found.values() if isinstance(value, list)] if isinstance(found, dict) else []
    return lists[0] if len(lists) == 1 else [found]


def _lines(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                yield json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataFileError(f"line {number} is no JSON: {error}") from None


def _of_csv(path: Path, count: int) -> Sample:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ",")
        try:
            rows = tuple(itertools.islice(reader, count))
        except csv.Error as error:
            raise DataFileError(f"line {reader.line_num}: {error}") from None
        return Sample(tuple(reader.fieldnames or ()), rows)


def _of_parquet(path: Path, count: int) -> Sample:
    import pyarrow  # type: ignore[import-untyped]
    import pyarrow.parquet  # type: ignore[import-untyped]

    try:
        file = pyarrow.parquet.ParquetFile(path)
        batch = next(file.iter_batches(batch_size=count), None)
    except pyarrow.ArrowException as error:
        raise DataFileError(str(error).splitlines()[0]) from None
    rows = tuple(batch.to_pylist()) if batch is not None else ()
    return Sample(tuple(file.schema_arrow.names), rows)
