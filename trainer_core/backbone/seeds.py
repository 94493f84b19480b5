"""One seed in the config, independent streams of random numbers in the run."""

from __future__ import annotations

import hashlib


def derive_seed(seed: int, purpose: str, step: int) -> int:
    """A 63-bit seed for one purpose at one step.

    No random state is carried from step to step, so a resumed run draws what an uninterrupted one would have
    drawn.
    """
    digest = hashlib.sha256(f"{seed}/{purpose}/{step}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
