"""Writes a file that is larger than its limit allows."""

from pathlib import Path

from training import train

train(3)
with Path("rollouts.bin").open("wb") as target:
    for _ in range(64):
        target.write(b"x" * 65536)
