"""What every rollout has in common: the Protocol, the seeds of episodes, the end when all of them fail."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol

from trainer_core.types import Episode, Sampling, Task, TrainingError


class Rollout(Protocol):
    """From tasks to judged episodes."""

    async def run(
        self,
        tasks: Sequence[Task],
        *,
        repeats: int,
        sampling: Sampling,
        seed: int,
        is_training: bool = True,
    ) -> list[Episode]:
        """`repeats` episodes of every task; those of one task lie together, in the order of `repeat`. One
        that fails says so in its `error`. `is_training` false: agents may sample otherwise than `sampling`.

        Raises:
            TrainingError: the judge failed, or every episode did.
        """


def seed_of(seed: int, *place: int) -> int:
    """A 63-bit seed for a place in the batch, or the same question asked twice would get one answer."""
    digest = hashlib.sha256("/".join(map(str, (seed, *place))).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def check_some_succeeded(episodes: Sequence[Episode]) -> None:
    """Raises:
    TrainingError: there are episodes, and all failed.
    """
    errors = [episode.error for episode in episodes if episode.error is not None]
    if errors and len(errors) == len(episodes):
        raise TrainingError(f"all {len(errors)} episodes failed; the first: {errors[0]}")
