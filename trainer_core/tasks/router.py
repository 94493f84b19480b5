"""The tasks of a reader for programs that play them themselves, such as the clients of a swarm."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from trainer_core.config.tasks import TaskReader
from trainer_core.types import DataError, Task, TaskSplits


class RouterTaskReader:
    """Reads what a config's `task_reader` would; each split when it is asked for."""

    def __init__(
        self, reader_type: str, reader_config: TaskReader | Mapping[str, Any] | None = None, *, seed: int = 0
    ) -> None:
        """
        Args:
            reader_type: see `ajet.task_reader.type`.
            reader_config: its other keys.
            seed: of the order of training tasks, which is another one each time they are asked for.

        Raises:
            DataError: there is no such reader, or its keys cannot be used.
        """
        config = reader_config or {}
        keys = config.model_dump(exclude_unset=True) if isinstance(config, TaskReader) else dict(config)
        try:
            self._reader = TaskReader.model_validate(keys | {"type": reader_type})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise DataError(f"task_reader.{place}: {first['input']!r}: {first['msg']}") from None
        if reader_type == "verifiers":
            raise DataError("task_reader.type: verifiers needs a training, which starts the environments")
        self._seed, self._epoch = seed, 0
        self._splits: dict[bool, TaskSplits] = {}

    def generate_training_tasks(self) -> Iterator[Task]:
        """The training tasks, shuffled anew.

        Raises:
            DataError: they cannot be read.
        """
        tasks = self.get_training_tasks()
        random.Random(f"order-{self._seed}-{self._epoch}").shuffle(tasks)
        self._epoch += 1
        yield from tasks

    def generate_validation_tasks(self) -> Iterator[Task]:
        """The validation tasks, in their order.

        Raises:
            DataError: they cannot be read.
        """
        yield from self.get_validation_tasks()

    def get_training_tasks(self) -> list[Task]:
        """The training tasks, in their order."""
        return list(self._read(validates=False).training)

    def get_validation_tasks(self) -> list[Task]:
        """The validation tasks, in their order."""
        return list(self._read(validates=True).validation)

    def _read(self, *, validates: bool) -> TaskSplits:
        from trainer_core.tasks.reader import read_tasks

        if validates not in self._splits:
            self._splits[validates] = read_tasks(self._reader, validates=validates, needs_question=False)
        return self._splits[validates]


class HuggingFaceTaskReader(RouterTaskReader):
    """Of `huggingface_dat_repo`."""

    def __init__(self, reader_config: TaskReader | Mapping[str, Any]) -> None:
        """See `RouterTaskReader`."""
        super().__init__("huggingface_dat_repo", reader_config)
