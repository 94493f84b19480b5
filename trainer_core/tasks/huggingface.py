"""Tasks from a Hugging Face data set: on the hub, saved to disk, or a folder of data files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainer_core.tasks.rows import task_from_row, unique_tasks
from trainer_core.types import DataError, Task


def read_huggingface(dataset_path: str, dataset_name: str | None, split: str) -> tuple[Task, ...]:
    """Read one split; a row without an id is called `<split>-<row number>`.

    Raises:
        DataError: the data set or split cannot be loaded, or a row has no question.
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
        else:
            loaded = datasets.load_dataset(dataset_path, dataset_name, split=split)
    except (OSError, ValueError, KeyError, datasets.exceptions.DatasetsError) as error:
        raise DataError(
            f"task_reader.huggingface_dat_repo: cannot load split {split!r} of {dataset_path!r}: "
            f"{type(error).__name__}: {error}. Check training_split and validation_split; for training "
            "without a network give the path of a local copy"
        ) from error
    return unique_tasks(_rows(loaded, f"{dataset_path}[{split}]", split), source=f"{dataset_path}[{split}]")


def _rows(rows: Any, source: str, split: str) -> Iterator[tuple[Task, str]]:
    for number, row in enumerate(rows):
        where = f"{source} row {number}"
        yield task_from_row(row, where=where, fallback_id=f"{split}-{number}"), where
