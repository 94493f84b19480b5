"""What an attempt's rows are taken from where its log holds none: files of one format below one folder; and
the table of formats.

In: the files that a training has written. Out: the sources they make up, the rows of each, and the best of
them. A log directory of TensorBoard, with its folders for training and validation, is one source; so are the
files of one MLflow run, and the newest state of a Trainer's output folder.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.metric_files import binary, text
from monitors.metrics import Row, row_from_object
from monitors.metrics.names import leading

COPIES = "metric_source"
"""The folder of an attempt that keeps the files its rows were taken from."""
FileRow = tuple[str, int, Row]  # file, relative to the source's root; line; row

_CHECKPOINT = re.compile(r"checkpoint-\d+")


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


@dataclass(frozen=True)
class FileSource:
    """Files of one format, and the folder below which they lie. `group`: what stays the same while files of
    it come and go."""

    format: Format
    root: Path
    files: tuple[Path, ...]
    group: Path

    @property
    def place(self) -> Path:
        """The file, or the folder of several."""
        return self.files[0] if len(self.files) == 1 else self.root

    def rows(self) -> list[FileRow]:
        """The rows of all files."""
        names = ((file, file.relative_to(self.root).as_posix()) for file in self.files)
        return [(name, line, row) for file, name in names for line, row in self.format.read(file)]

    def copied(self, into: Path) -> None:
        """Copy the files into a folder, private to the user."""
        for file in self.files:
            target = into / file.relative_to(self.root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
            target.chmod(0o600)


def source_in(folder: Path) -> FileSource | None:
    """The source whose files were copied into this folder; None for none."""
    files = tuple(sorted(path for path in folder.rglob("*") if path.is_file()))
    known = format_of(files[0]) if files else None
    return FileSource(known, folder, files, folder) if known else None


def sources(files: Iterable[Path]) -> list[FileSource]:
    """The sources that these files make up, in the order of the table of formats."""
    there = [(file, known) for file in sorted(files) if (known := format_of(file)) is not None]
    groups: dict[Path, tuple[Format, list[Path]]] = {}
    for file, known in there:
        if known is EVENTS:
            root = binary.run_folder(file)
        elif known is MLFLOW:
            root = next(folder for folder in file.parents if folder.name == "metrics").parent
        elif known is TRAINER_STATE and _CHECKPOINT.fullmatch(file.parent.name):
            root = file.parent.parent
        else:
            root = file.parent if known is TRAINER_STATE else file
        groups.setdefault(root, (known, []))[1].append(file)
    found = [_source(known, root, files) for root, (known, files) in groups.items()]
    return sorted(found, key=lambda source: FORMATS.index(source.format))


def _source(known: Format, root: Path, files: list[Path]) -> FileSource:
    if known is TRAINER_STATE:  # a checkpoint's state holds all that came before it
        files = [max(files, key=lambda file: file.stat().st_mtime_ns)]
    return FileSource(known, root if known in (EVENTS, MLFLOW) else files[0].parent, tuple(files), root)


def best(candidates: Iterable[FileSource], wanted: str = "") -> FileSource | None:
    """The source with most rows of its leading metric, of equal ones the first; None where none has a metric
    that is known. `wanted`: what the metric is about, as for `leading`."""
    counted = [(source, _telling_rows(source, wanted)) for source in candidates]
    source, count = max(counted, key=lambda item: item[1], default=(None, 0))
    return source if count else None


def _telling_rows(source: FileSource, wanted: str) -> int:
    """How many rows hold the leading metric. In a table or JSON lines, which may hold anything, they must
    name a step or an epoch too."""
    try:
        rows = [row for _, _, row in source.rows()]
    except OSError:
        return 0
    if not source.format.holds_only_metrics:
        rows = [row for row in rows if row.step is not None or row.epoch is not None]
    leader = leading({name for row in rows for name in row.values}, wanted)
    return sum(leader in row.values for row in rows)
