"""One seed in the config, independent streams of random numbers in the run."""

from __future__ import annotations

import hashlib


def derive_seed(seed: int, *place: str | int) -> int:
    """A 63-bit seed for one place: a purpose and a step, or a task and its repeat.

    No random state is carried from step to step, so a resumed run draws what an uninterrupted one would have
    drawn; and the same question asked twice does not get one answer.
    """
    digest = hashlib.sha256("/".join(map(str, (seed, *place))).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
