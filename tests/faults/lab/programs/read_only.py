"""Writes where the file system may only be read."""

from pathlib import Path

from training import train

train(2)
Path("disk/checkpoints").mkdir(parents=True)
