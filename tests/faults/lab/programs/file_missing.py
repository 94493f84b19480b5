"""Opens a data file that is not where the config says."""

from pathlib import Path

from training import train

train(1)
Path("data/gsm8k/train.jsonl").read_text()
