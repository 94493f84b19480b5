"""Reads JSON lines with the standard library."""

import json
from pathlib import Path

from training import train


def read_tasks(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


train(1)
read_tasks(Path("train.jsonl"))
