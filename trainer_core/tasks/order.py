"""Which tasks each step trains on: a seeded shuffle per epoch, a pure function of seed and step."""

from __future__ import annotations

import random
from collections.abc import Sequence

from trainer_core.types import DataError, Task


class TaskOrder:
    """Cuts every epoch's shuffle into batches; a rest that does not fill a batch is left out, as verl does.

    Because a step's tasks depend on nothing but (seed, step), a resumed run sees exactly what an
    uninterrupted one sees.
    """

    def __init__(self, tasks: Sequence[Task], batch_size: int, seed: int) -> None:
        if batch_size > len(tasks):
            raise DataError(
                f"data.train_batch_size is {batch_size} but there are only {len(tasks)} training tasks; "
                "lower it or add tasks"
            )
        self._tasks = tasks
        self._batch_size = batch_size
        self._seed = seed
        self.steps_per_epoch = len(tasks) // batch_size

    def tasks_of_step(self, step: int) -> list[Task]:
        """The batch of a step; steps count from 1."""
        epoch, position = divmod(step - 1, self.steps_per_epoch)
        order = list(range(len(self._tasks)))
        random.Random(f"order-{self._seed}-{epoch}").shuffle(order)
        chosen = order[position * self._batch_size : (position + 1) * self._batch_size]
        return [self._tasks[index] for index in chosen]
