"""The table of formats: how a file is recognised, and who reads it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.metric_files import binary, text
from monitors.metrics import Row, row_from_object


@dataclass(frozen=True)
class Format:
    """`name`: as people know it. `file`: what matches the end of a path. `records`: what stands in a file.
    `holds_only_metrics`: nothing else is ever written in it, so that its rows count without a step."""

    name: str
    file: re.Pattern[str]
    records: Callable[[Path], text.Records]
    holds_only_metrics: bool = True

    def read(self, path: Path) -> list[tuple[int, Row]]:
        """The rows of a file, each with its line or the number of its record; records without a number are
        passed over. Raises OSError for a file that cannot be read."""
        rows = ((number, row_from_object(record)) for number, record in self.records(path))
        return [(number, row) for number, row in rows if row is not None and row.values]


TRAINER_STATE = Format("Trainer state", re.compile(r"(?:^|/)trainer_state\.json$"), text.read_trainer_state)
EVENTS = Format("TensorBoard events", re.compile(r"\.tfevents\.[^/]+$"), binary.read_tensorboard)
MLFLOW = Format("MLflow metrics", re.compile(r"(?:^|/)metrics/(?:[^/]+/)*[^/.][^/]*$"), text.read_mlflow)
FORMATS = (
    TRAINER_STATE,
    EVENTS,
    Format("CSV", re.compile(r"\.csv$"), text.read_csv, holds_only_metrics=False),
    Format("JSON lines", re.compile(r"\.(?:jsonl|ndjson)$"), text.read_jsonl, holds_only_metrics=False),
    Format("W&B offline run", re.compile(r"(?:^|/)[^/]+\.wandb$"), binary.read_wandb),
    Format("SwanLab run", re.compile(r"(?:^|/)[^/]+\.swanlab$"), binary.read_swanlab),
    MLFLOW,
    Format("MLflow database", re.compile(r"(?:^|/)mlflow\.db$"), binary.read_mlflow_database),
)
"""In the order in which one is preferred that tells as much as another."""


def format_of(path: Path) -> Format | None:
    """The format of a file, by its name."""
    name = path.as_posix()
    return next((one for one in FORMATS if one.file.search(name)), None)
