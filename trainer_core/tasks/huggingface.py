"""Tasks from a Hugging Face data set: on the hub, saved to disk, a folder of data files, or one such file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from trainer_core.tasks.rows import task_from_row, unique_tasks
from trainer_core.types import DataError, Task

_FILES = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".csv": "csv"}


def read_huggingface(
    dataset_path: str, dataset_name: str | None, split: str, *, needs_question: bool = True
) -> tuple[Task, ...]:
    """Read one split, or the file that `dataset_path` names, which is the training split; a row without an
    id is called `<split>-<row number>`.

    Raises:
        DataError: the data set or split cannot be loaded, or a row has no question and needs one.
    """
    import datasets

    try:
        if (Path(dataset_path) / "dataset_dict.json").is_file():
            loaded: Any = datasets.load_from_disk(dataset_path)[split]
        elif (Path(dataset_path) / "state.json").is_file():
            raise DataError(
                f"task_reader.huggingface_dat_repo: {dataset_path!r} is one saved split without a name; save "
                "a DatasetDict with the splits that training and validation take"
            )
        elif kind := _kind_of_file(dataset_path):
            loaded = datasets.load_dataset(kind, data_files={split: dataset_path}, split=split)
        else:
            loaded = datasets.load_dataset(dataset_path, dataset_name, split=split)
    except (OSError, ValueError, KeyError, datasets.exceptions.DatasetsError) as error:
        raise DataError(
            f"task_reader.huggingface_dat_repo: cannot load split {split!r} of {dataset_path!r}: "
            f"{type(error).__name__}: {error}. Check training_split and validation_split; for training "
            "without a network give the path of a local copy"
        ) from error
    source = f"{dataset_path}[{split}]"
    return unique_tasks(_rows(loaded, source, split, needs_question), source=source)


def check_has_validation(dataset_path: str) -> None:
    """One data file has no tasks to validate on.

    Raises:
        DataError: it is one.
    """
    if _kind_of_file(dataset_path):
        raise DataError(
            f"task_reader.huggingface_dat_repo.dataset_path: {dataset_path!r} is one data file, so it has "
            "one split, to train on. To validate, name a folder with a file for each of training_split and "
            "validation_split, such as train.jsonl and validation.jsonl; else set "
            "ajet.trainer_common.test_freq: -1 and val_before_train: false"
        )


def count_huggingface(dataset_path: str, dataset_name: str | None, split: str) -> int | None:
    """Rows of a split of a data set that was saved to disk or is in the cache of the hub, in no time; None of
    any other.

    Raises:
        DataError: the data set is there and has no such split, or cannot be read.
    """
    saved = Path(dataset_path, "dataset_dict.json")
    try:
        if saved.is_file():
            _check_split(json.loads(saved.read_text(encoding="utf-8"))["splits"], dataset_path, split)
            return _rows_of_arrow(Path(dataset_path, split))
        for info in _cached(dataset_path, dataset_name):
            splits = json.loads(info.read_text(encoding="utf-8"))["splits"]
            _check_split(splits, dataset_path, split)
            return int(splits[split]["num_examples"])
        if dataset_path.startswith(("/", "./", "../")) and not Path(dataset_path).exists():
            raise DataError(
                f"task_reader.huggingface_dat_repo.dataset_path: there is no {Path(dataset_path).absolute()}"
            )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"task_reader.huggingface_dat_repo: cannot read {dataset_path!r}: {type(error).__name__}: {error}"
        ) from error
    return None


def _kind_of_file(dataset_path: str) -> str | None:
    """What a data file is to `datasets`; None of any other data set."""
    return _FILES.get(Path(dataset_path).suffix) if Path(dataset_path).is_file() else None


def _check_split(splits: Iterable[str], dataset_path: str, split: str) -> None:
    if split not in splits:
        raise DataError(
            f"task_reader.huggingface_dat_repo: {dataset_path!r} has no split {split!r}; it has "
            f"{', '.join(splits)}. Correct training_split or validation_split"
        )


def _rows_of_arrow(folder: Path) -> int | None:
    try:
        import pyarrow  # type: ignore[import-untyped]
    except ModuleNotFoundError:  # the harness is installed alone
        return None
    files = json.loads((folder / "state.json").read_text(encoding="utf-8"))["_data_files"]
    rows = 0
    for file in files:
        with pyarrow.memory_map(str(folder / file["filename"])) as mapped:
            rows += sum(batch.num_rows for batch in pyarrow.ipc.open_stream(mapped))
    return rows


def _cached(dataset_path: str, dataset_name: str | None) -> list[Path]:
    """The description of a hub data set in the cache of `datasets`; none where it is not clear which."""
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    cache = Path(os.environ.get("HF_DATASETS_CACHE") or home / "datasets")
    if not dataset_path or Path(dataset_path).exists():
        return []
    inner = "*/*/dataset_info.json" if dataset_name else "*/*/*/dataset_info.json"
    found = list((cache / dataset_path.replace("/", "___") / (dataset_name or "")).glob(inner))
    return found if len(found) == 1 else []


def _rows(rows: Any, source: str, split: str, needs_question: bool) -> Iterator[tuple[Task, str]]:
    for number, row in enumerate(rows):
        where = f"{source} row {number}"
        task = task_from_row(row, where=where, fallback_id=f"{split}-{number}", needs_question=needs_question)
        yield task, where
