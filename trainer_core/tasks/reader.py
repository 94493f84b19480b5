"""The one way to tasks: from the config's `task_reader` to the three splits of a run."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainer_core.config.section import path_of
from trainer_core.tasks.builtin import make_dummies, make_toy
from trainer_core.tasks.huggingface import read_huggingface
from trainer_core.tasks.jsonl import read_jsonl
from trainer_core.tasks.tracing import read_traces
from trainer_core.types import DataError, Task, TaskSplits

if TYPE_CHECKING:
    from trainer_core.config.tasks import JsonlFile, TaskReader

_DUMMIES = 1_000
_WARMUP_TASKS = 128


def read_tasks(reader: TaskReader, *, validates: bool = True) -> TaskSplits:
    """Read the tasks the config names; without `validates` a data set needs no validation split.

    Files and data sets have no split for the warm-up, so up to 128 training tasks (a tenth at most) serve as
    it.

    Raises:
        DataError: anything wrong with the data.
    """
    if reader.type == "builtin":
        toy = reader.builtin
        return make_toy(
            toy.name,
            digits=toy.digits,
            num_validation_tasks=toy.num_validation_tasks,
            split_seed=toy.split_seed,
        )
    if reader.type == "jsonl_dataset_file":
        files = reader.jsonl_dataset_file
        training, validation = _read_file(files.training), _read_file(files.validation)
    elif reader.type == "huggingface_dat_repo":
        repo = reader.huggingface_dat_repo
        training = read_huggingface(repo.dataset_path, repo.dataset_name, repo.training_split)
        validation = (
            read_huggingface(repo.dataset_path, repo.dataset_name, repo.validation_split) if validates else ()
        )
    elif reader.type == "tracing":
        training, validation = read_traces(reader.jsonl_dataset_file.training.file_path)
    elif reader.type == "random_dummy":
        seed = reader.builtin.split_seed
        training = make_dummies(_DUMMIES, seed=seed, split="training")
        validation = make_dummies(_DUMMIES // 10, seed=seed, split="validation")
    else:
        raise DataError(
            f"task_reader.type: {reader.type!r} cannot be read by this backbone; "
            "use builtin, jsonl_dataset_file, huggingface_dat_repo, tracing or random_dummy"
        )
    return TaskSplits(training, validation, warmup=_set_aside(training))


def _read_file(file: JsonlFile) -> tuple[Task, ...]:
    """The tasks of a file; none where the config names no file, which it checks is not needed."""
    return read_jsonl(path_of(file.file_path)) if file.file_path is not None else ()


def _set_aside(training: Sequence[Task]) -> tuple[Task, ...]:
    size = min(len(training), max(1, min(_WARMUP_TASKS, len(training) // 10)))
    return tuple(random.Random("warm-up").sample(list(training), size))
