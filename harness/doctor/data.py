"""The data: files parse, have rows and the columns that the settings name. Their first rows are read."""

import csv
import itertools
import json
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness.doctor.findings import Finding, fine, problem, warning
from harness.doctor.launch import PlannedLaunch
from harness.doctor.model import stands_for
from harness.doctor.settings import local_path
from harness.wording import did_you_mean

Row = dict[str, Any]
_FIRST_ROWS = 50
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
_VERL_MANAGERS = (None, "naive", "dapo", "prime", "batch")
"""Reward managers that take the right answer from the column `reward_model`."""


def rows_parse(launch: PlannedLaunch) -> Iterator[Finding]:
    """The first rows of each file parse, there are some, and they have the columns that the settings name."""
    for path, key in _files(launch).items():
        shown = f"{key}: {launch.shown(path)}"
        if stands_for(path):
            continue  # the check of inputs says so
        if path.suffix == ".parquet" and find_spec("pyarrow") is None:
            yield fine(f"{shown} is not looked into: reading Parquet needs `pip install pyarrow` here")
            continue
        try:
            rows = _first_rows(path)
        except (ValueError, OSError, csv.Error, RecursionError) as error:
            why = f"{shown} cannot be read as {path.suffix[1:]}: {str(error).splitlines()[0]}"
            yield problem(why, "correct the file, or write it again", "dataset_error")
            continue
        if not rows:
            yield problem(f"{shown} has no rows", "put data into it, or name another file", "dataset_error")
            continue
        found = list(_without_column(launch, launch.shown(path), rows))
        yield from found or [fine(f"{shown}: the first {len(rows)} rows have what the settings name")]


def _files(launch: PlannedLaunch) -> dict[Path, str]:
    """The readable data files that exist, and the keys that name them."""
    found: dict[Path, str] = {}
    reader = f".{launch.settings.get('ajet.task_reader.type')}."
    for key, text in launch.settings.texts():
        if _NAMES_DATA.fullmatch(key) and (not key.startswith("ajet.") or reader in key):
            path = local_path(text, launch.codebase)
            if path is not None and path.suffix in _READABLE and path.is_file():
                found.setdefault(path, key)
    return found


def _without_column(launch: PlannedLaunch, shown: str, rows: list[Row]) -> Iterator[Finding]:
    """Columns that the settings name, or that verl reads by default, and the data has not."""
    columns = list(dict.fromkeys(str(key) for row in rows for key in row))
    settings = launch.settings
    is_verl = settings.is_of_verl
    wanted = {key: name for key, name in settings.texts() if _COLUMN.search(key) and "api" not in key}
    if is_verl:
        defaults = {"data.prompt_key": "prompt", "data.reward_fn_key": "data_source"}
        wanted = {key: settings.get(key) or name for key, name in defaults.items()}
        if settings.get("reward_model.reward_manager", "reward.reward_manager.name") in _VERL_MANAGERS:
            wanted["the reward"] = "reward_model"
    for key, name in wanted.items():
        if name and name not in columns:
            fix = did_you_mean(name, columns, "did you mean {}?") or f"name one of them in {key}"
            text = f"{shown} has no column {name!r} ({key}); its columns are {', '.join(columns[:12])}"
            yield (problem if is_verl and not launch.prepares else warning)(text, fix, "dataset_error")


def _first_rows(path: Path) -> list[Row]:
    """The first rows of a file. Raises ValueError, OSError, csv.Error or RecursionError."""
    readers = {".parquet": _of_parquet, ".json": _of_json, ".jsonl": _of_lines}
    rows = list(itertools.islice(readers.get(path.suffix, _of_csv)(path), _FIRST_ROWS))
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise ValueError(f"row {number} is a {type(row).__name__}, not an object")
    return rows


def _of_json(path: Path) -> Iterator[Any]:
    """The list in a JSON file, or the one list inside its object; else its lines."""
    if path.stat().st_size > _MOST_JSON_BYTES:
        return _of_lines(path)
    text = path.read_text(encoding="utf-8-sig")
    try:
        found = json.loads(text)
    except ValueError:
        if text.lstrip().startswith("[") or text.count("\n") < 2:
            raise
        return _of_lines(path)
    lists = [value for value in found.values() if isinstance(value, list)] if isinstance(found, dict) else []
    return iter(found if isinstance(found, list) else lists[0] if len(lists) == 1 else [found])


def _of_lines(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            try:
                if line.strip():
                    yield json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"line {number} is no JSON: {error}") from None


def _of_csv(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        yield from csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ",")


def _of_parquet(path: Path) -> Iterator[Any]:
    from pyarrow.parquet import ParquetFile  # type: ignore[import-untyped]

    for batch in ParquetFile(path).iter_batches(batch_size=_FIRST_ROWS):
        yield from batch.to_pylist()
