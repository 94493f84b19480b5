"""The data: files parse, have rows and the columns that the settings name. Their first rows are read."""

import csv
import difflib
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.doctor.findings import Finding, fine, problem, warning
from harness.doctor.launch import PlannedLaunch
from harness.doctor.settings import local_path

FIRST_ROWS = 50
_MOST_JSON_BYTES = 64 * 2**20
_READABLE = (".jsonl", ".json", ".csv", ".tsv", ".parquet")
_NAMES_DATA = re.compile(
    r"(?:.*[._])?(?:(?:data|train|val|valid|validation|eval|test|dataset)_?(?:files?|path)|file_path)|data"
)
_COLUMN = re.compile(
    r"(?:^|[._])(?:(?:text|prompt|answer|question|query|label|target|input|output|response|completion|chosen"
    r"|rejected|solution|ground_truth|messages|context|summary|dataset_text|image|source)"
    r"_(?:column|field|key|col|column_name)|column_(?:text|prompt|answer|label|input|output))$"
)
_QUESTIONS = ("main_query", "question", "prompt", "query", "problem")
"""Names the bundled trainer takes a question from."""
_VERL_MANAGERS = (None, "naive", "dapo", "prime", "batch")
"""Reward managers that take the right answer from the column `reward_model`."""


class DataFileError(Exception):
    """The file cannot be read as rows; the message says where and why."""


@dataclass(frozen=True)
class DataFile:
    """A data file that the settings name, and by which key."""

    key: str
    path: Path


@dataclass(frozen=True)
class Sample:
    """Columns of a data file and its first rows; () for a file without rows."""

    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]


def files(launch: PlannedLaunch) -> list[DataFile]:
    """The readable data files that the settings name and that exist."""
    found: dict[Path, DataFile] = {}
    reader = f".{launch.settings.get('ajet.task_reader.type')}."
    for key, text in launch.settings.texts():
        if not _NAMES_DATA.fullmatch(key) or (key.startswith("ajet.") and reader not in key):
            continue
        path = local_path(text, launch.codebase)
        if path is not None and path.suffix in _READABLE and path.is_file():
            found.setdefault(path, DataFile(key, path))
    return list(found.values())


def rows_parse(launch: PlannedLaunch) -> Iterator[Finding]:
    """The first rows of each file parse, there are some, and they have the columns that the settings name."""
    for file in files(launch):
        shown = f"{file.key}: {launch.shown(file.path)}"
        try:
            found = sample(file.path)
        except DataFileError as error:
            yield problem(f"{shown}: {error}", "correct the file, or write it again", "dataset_error")
            continue
        if not found.rows:
            yield problem(f"{shown} has no rows", "put data into it, or name another file", "dataset_error")
            continue
        missing = list(_missing(launch, file, found))
        yield from missing or [fine(f"{shown}: the first {len(found.rows)} rows have what the settings name")]


def _missing(launch: PlannedLaunch, file: DataFile, found: Sample) -> Iterator[Finding]:
    settings, shown = launch.settings, launch.shown(file.path)
    there = ", ".join(found.columns[:12])
    if launch.is_bundled:
        for number, row in enumerate(found.rows, start=1):
            if not any(str(row.get(name) or "").strip() for name in _QUESTIONS):
                text = f"{shown}: row {number} has no question; its columns are {there}"
                yield problem(text, f"name the question {' or '.join(_QUESTIONS[:3])}", "dataset_error")
                return
        return
    is_verl = settings.has_tree("actor_rollout_ref")
    if is_verl:
        wanted = {
            "data.prompt_key": settings.get("data.prompt_key") or "prompt",
            "data.reward_fn_key": settings.get("data.reward_fn_key") or "data_source",
        }
        if settings.get("reward_model.reward_manager", "reward.reward_manager.name") in _VERL_MANAGERS:
            wanted["the reward"] = "reward_model"
    else:
        wanted = {key: name for key, name in settings.texts() if _COLUMN.search(key) and "api" not in key}
    for key, name in wanted.items():
        if name and name not in found.columns:
            close = difflib.get_close_matches(name, found.columns, 1)
            fix = f"did you mean {close[0]}?" if close else f"name one of them in {key}"
            text = f"{shown} has no column {name!r} ({key}); its columns are {there}"
            yield (problem if is_verl and not launch.prepares else warning)(text, fix, "dataset_error")


def sample(path: Path, count: int = FIRST_ROWS) -> Sample:
    """The columns and the first `count` rows of a file. Raises DataFileError."""
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
    whole = _whole_json(path) if path.suffix == ".json" else None
    rows = whole[:count] if whole is not None else list(itertools.islice(_lines(path), count))
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise DataFileError(f"row {number} is a {type(row).__name__}, not an object")
    return Sample(tuple(dict.fromkeys(str(key) for row in rows for key in row)), tuple(rows))


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
