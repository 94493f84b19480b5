"""The one way to tasks: from the config's `task_reader` to the three splits of a run."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from trainer_core.config.section import path_of
from trainer_core.tasks.builtin import WARMUP_TASKS, make_dummies, make_toy
from trainer_core.tasks.huggingface import check_has_validation, read_huggingface
from trainer_core.tasks.jsonl import read_jsonl
from trainer_core.tasks.tracing import read_traces
from trainer_core.types import DataError, Task, TaskSplits

if TYPE_CHECKING:
    from trainer_core.config.tasks import JsonlFile, TaskReader
    from trainer_core.environments.verifiers import VerifiersEnvironments

_DUMMIES = 1_000
_log = logging.getLogger(__name__)


def read_tasks(
    reader: TaskReader,
    environments: VerifiersEnvironments | None = None,
    *,
    validates: bool = True,
    needs_question: bool = True,
    say: Callable[[str], None] = _log.info,
    safe_point: Callable[[], None] = lambda: None,
) -> TaskSplits:
    """Read the tasks the config names; without `validates` a data set needs no validation split, without
    `needs_question` its rows no question.
    `environments`: are started where `type` is `verifiers`, which needs them. `say`, `safe_point`: see
    `generate_tasks`, which may take its time.

    Files and data sets have no split for the warm-up, so up to 128 training tasks (a tenth at most) serve as
    it.

    Raises:
        DataError: anything wrong with the data.
        TrainingError: an outside model that is to write tasks does not.
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
        if validates:
            check_has_validation(repo.dataset_path)
        read = partial(read_huggingface, repo.dataset_path, repo.dataset_name, needs_question=needs_question)
        training = read(repo.training_split)
        validation = read(repo.validation_split) if validates else ()
    elif reader.type == "tracing":
        training, validation = read_traces(reader.jsonl_dataset_file.training.file_path)
    elif reader.type == "verifiers":
        assert environments is not None
        training, validation = environments.tasks()
    elif reader.type == "env_service":
        from trainer_core.environments.env_service import read_env_service

        training, validation = read_env_service(reader.env_service, validates=validates)
    elif reader.type == "openenv":
        from trainer_core.environments.openenv import read_openenv

        training, validation = read_openenv(reader.openenv)
    elif reader.type == "data_generation":
        from trainer_core.tasks.generation import generate_tasks

        training, validation = generate_tasks(reader.data_generation, say=say, safe_point=safe_point)
    elif reader.type == "random_dummy":
        seed = reader.builtin.split_seed
        training = make_dummies(_DUMMIES, seed=seed, split="training")
        validation = make_dummies(_DUMMIES // 10, seed=seed, split="validation")
    else:
        raise DataError(f"task_reader.type: {reader.type!r} cannot be read by this backbone; use another")
    return TaskSplits(training, validation, warmup=_set_aside(training))


def _read_file(file: JsonlFile) -> tuple[Task, ...]:
    """The tasks of a file; none where the config names no file, which it checks is not needed."""
    return read_jsonl(path_of(file.file_path)) if file.file_path is not None else ()


def _set_aside(training: Sequence[Task]) -> tuple[Task, ...]:
    size = min(len(training), max(1, min(WARMUP_TASKS, len(training) // 10)))
    return tuple(random.Random("warm-up").sample(list(training), size))
