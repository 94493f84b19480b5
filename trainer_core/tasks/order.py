"""Which tasks are trained on, and by which step: seeded shuffles, pure functions of seed and step."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from trainer_core.types import DataError, Task

_VALIDATION_SHARE = 0.3
_HELD_OUT_SEED = 42
Item = TypeVar("Item")


def held_out(items: Sequence[Item]) -> tuple[list[Item], list[Item]]:
    """Those to train on and, three of ten, those to validate on, of a source without splits; always the
    same."""
    shuffled = list(items)
    random.Random(_HELD_OUT_SEED).shuffle(shuffled)
    held = round(len(shuffled) * _VALIDATION_SHARE)
    return shuffled[held:], shuffled[:held]


class TaskOrder:
    """Cuts every epoch's shuffle into batches; a rest that does not fill a batch is left out, as verl does.

    Because a step's tasks depend on nothing but (seed, step), a resumed run sees exactly what an
    uninterrupted one sees.
    """

    def __init__(self, tasks: Sequence[Task], batch_size: int, seed: int) -> None:
        self._tasks = tasks
        self._batch_size = batch_size
        self._seed = seed
        self.steps_per_epoch = steps_per_epoch(len(tasks), batch_size)
        self._shuffled: tuple[int, list[int]] = (-1, [])  # the epoch asked for last, and its order

    def tasks_of_step(self, step: int) -> list[Task]:
        """The batch of a step; steps count from 1."""
        epoch, position = divmod(step - 1, self.steps_per_epoch)
        if self._shuffled[0] != epoch:
            order = list(range(len(self._tasks)))
            random.Random(f"order-{self._seed}-{epoch}").shuffle(order)
            self._shuffled = (epoch, order)
        chosen = self._shuffled[1][position * self._batch_size : (position + 1) * self._batch_size]
        return [self._tasks[index] for index in chosen]


def steps_per_epoch(tasks: int, batch_size: int) -> int:
    """Full batches in so many tasks.

    Raises:
        DataError: there is none.
    """
    if batch_size > tasks:
        raise DataError(
            f"data.train_batch_size is {batch_size} but there are only {tasks} training tasks; "
            "lower it or add tasks"
        )
    return tasks // batch_size
