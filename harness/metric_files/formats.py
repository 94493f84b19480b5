"""The table of formats: how a file is recognised, and who reads it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.metric_files import binary, text
from harness.metric_files.rows import Rows


@dataclass(frozen=True)
class Format:
    """`name`: as people know it. `file`: what matches the end of a path. `read`: the rows of a file; raises
    OSError for one that cannot be read. `holds_only_metrics`: nothing else is ever written in it, so that its
    rows count without a step."""

    name: str
    file: re.Pattern[str]
    read: Callable[[Path], Rows]
    holds_only_metrics: bool = True


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
    text = path.as_posix()
    return next((one for one in FORMATS if one.file.search(text)), None)
