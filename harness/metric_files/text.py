"""Text files of trainers and loggers: Trainer states, CSV, JSON lines, MLflow's metric files.

In: a file. Out: rows, each with its line (from 1, split at newlines). A line that is still being written is
read again by the next look at the file.
"""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

from harness.metric_files.rows import Rows, rows_of

_LOG_HISTORY = re.compile(r'"log_history"\s*:\s*\[')
_SEPARATORS = (",", ";", "\t")
_MLFLOW_LINE = re.compile(r"\d{10,16} (?P<value>\S+)(?: (?P<step>-?\d+))?\s*")


def read_trainer_state(path: Path) -> Rows:
    """`trainer_state.json` of the Hugging Face Trainer: one row per entry of its `log_history`."""
    text = _text(path)
    found = _LOG_HISTORY.search(text)
    if found is None:
        return []
    records: list[tuple[int, object]] = []
    decoder, at, line, counted = json.JSONDecoder(), found.end(), 1, 0
    while (start := re.compile(r"[\s,]*(?=\{)").match(text, at)) is not None:
        line, counted = line + text.count("\n", counted, start.end()), start.end()
        try:
            record, at = decoder.raw_decode(text, start.end())
        except ValueError:
            break
        records.append((line, record))
    return rows_of(records)


def read_csv(path: Path) -> Rows:
    """A table with a head (by Lightning, Ultralytics, Stable-Baselines3, Keras): empty cells hold nothing,
    names and numbers may be padded, lines that begin with `#` are no rows."""
    lines = enumerate(_text(path).split("\n"), start=1)
    there = [(number, line) for number, line in lines if line.strip() and not line.startswith("#")]
    if not there:
        return []
    head = there[0][1]
    separator = max(_SEPARATORS, key=head.count)
    names, *cells = csv.reader((line for _, line in there), delimiter=separator, skipinitialspace=True)
    names = [name.strip() for name in names]
    return rows_of(
        (number, {n: c.strip() for n, c in zip(names, row, strict=False) if n and c.strip()})
        for (number, _), row in zip(there[1:], cells, strict=False)
    )


def read_jsonl(path: Path) -> Rows:
    """One JSON object per line; text is passed over."""
    return rows_of(enumerate(map(_numbers_in, _text(path).split("\n")), start=1))


def _numbers_in(line: str) -> dict[str, object]:
    try:
        record = json.loads(line) if line.strip() else None
    except (ValueError, RecursionError):
        return {}
    there = record.items() if isinstance(record, dict) else ()
    return {key: value for key, value in there if not isinstance(value, str)}


def read_mlflow(path: Path) -> Rows:
    """`mlruns/EXPERIMENT/RUN/metrics/NAME`: time stamp, value and step per line; the path below `metrics` is
    the name."""
    name = f"/{path.as_posix()}".rpartition("/metrics/")[2]
    lines = enumerate(map(_MLFLOW_LINE.fullmatch, _text(path).split("\n")), start=1)
    return rows_of(
        (number, {name: found["value"], "step": found["step"]}) for number, found in lines if found
    )


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
