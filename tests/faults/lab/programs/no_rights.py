"""Writes into a folder that may only be read."""

from pathlib import Path

from training import train

results = Path("results")
results.mkdir(mode=0o555)
train(2)
(results / "checkpoint-2").mkdir()
