"""Text files of trainers and loggers: Trainer states, CSV, JSON lines, MLflow's metric files.

In: a file. Out: records, each with its line (from 1, split at newlines). A line that is still being written
is read again by the next look at the file.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path

Records = Iterator[tuple[int, object]]
"""Each with its line or, of a binary file, its number in the file, from 1."""

_LOG_HISTORY = re.compile(r'"log_history"\s*:\s*\[')
_SEPARATORS = (",", ";", "\t")
_MLFLOW_LINE = re.compile(r"\d{10,16} (?P<value>\S+)(?: (?P<step>-?\d+))?\s*")


def read_trainer_state(path: Path) -> Records:
    """`trainer_state.json` of the Hugging Face Trainer: one record per entry of its `log_history`."""
    text = _text(path)
    found = _LOG_HISTORY.search(text)
    if found is None:
        return
    decoder, at, line, counted = json.JSONDecoder(), found.end(), 1, 0
    while (start := re.compile(r"[\s,]*(?=\{)").match(text, at)) is not None:
        line, counted = line + text.count("\n", counted, start.end()), start.end()
        try:
            record, at = decoder.raw_decode(text, start.end())
        except ValueError:
            return
        yield line, record


def read_csv(path: Path) -> Records:
    """A table with a head (by Lightning, Ultralytics, Stable-Baselines3, Keras): empty cells hold nothing,
    names and numbers may be padded, lines that begin with `#` are no rows."""
    lines = enumerate(_text(path).split("\n"), start=1)
    there = [(number, line) for number, line in lines if line.strip() and not line.startswith("#")]
    if not there:
        return
    head = there[0][1]
    separator = max(_SEPARATORS, key=head.count)
    names, *cells = csv.reader((line for _, line in there), delimiter=separator, skipinitialspace=True)
    names = [name.strip() for name in names]
    for (number, _), row in zip(there[1:], cells, strict=False):
        yield number, {n: c.strip() for n, c in zip(names, row, strict=False) if n and c.strip()}


def read_jsonl(path: Path) -> Records:
    """One JSON object per line; text is passed over."""
    return enumerate(map(_numbers_in, _text(path).split("\n")), start=1)


def _numbers_in(line: str) -> dict[str, object]:
    try:
        record = json.loads(line) if line.strip() else None
    except (ValueError, RecursionError):
        return {}
    there = record.items() if isinstance(record, dict) else ()
    return {key: value for key, value in there if not isinstance(value, str)}


def read_mlflow(path: Path) -> Records:
    """`mlruns/EXPERIMENT/RUN/metrics/NAME`: time stamp, value and step per line; the path below `metrics` is
    the name."""
    name = f"/{path.as_posix()}".rpartition("/metrics/")[2]
    lines = enumerate(map(_MLFLOW_LINE.fullmatch, _text(path).split("\n")), start=1)
    return ((number, {name: found["value"], "step": found["step"]}) for number, found in lines if found)


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
