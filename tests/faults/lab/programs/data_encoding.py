"""Reads a data file in another encoding."""

from pathlib import Path

from training import train


def load_dataset(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


train(1)
load_dataset(Path("train.jsonl"))
