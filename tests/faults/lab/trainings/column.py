"""Reads a column that its data calls otherwise."""

import json
from pathlib import Path

from settled import config, go_on

settings = config()


def load_dataset(path: Path, column: str) -> list[str]:
    return [json.loads(line)[column] for line in path.read_text().splitlines()]


load_dataset(Path("train.jsonl"), settings["prompt_key"])
for _ in go_on(settings["max_steps"]):
    pass
