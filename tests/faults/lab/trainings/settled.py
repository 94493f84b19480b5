"""A training that remembers how far it came: the part that all trainings of the laboratory share."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from training import row, say

CHECKPOINT = Path("checkpoint.json")


def config() -> dict[str, Any]:
    """The settings in the file of the command line."""
    return yaml.safe_load(Path(sys.argv[1]).read_text())


def go_on(steps: int) -> Iterator[int]:
    """Yield the steps that are left; each is printed and remembered when it is done."""
    Path("pid").write_text(str(os.getpid()))
    done = json.loads(CHECKPOINT.read_text())["step"] if CHECKPOINT.exists() else 0
    say(f"training from step {done + 1}")
    for step in range(done + 1, steps + 1):
        yield step
        row(step, 0.3 + 0.02 * step, 0.03 + 0.001 * step)
        whole = CHECKPOINT.with_suffix(".new")  # whoever is killed while writing leaves the one before
        whole.write_text(json.dumps({"step": step}))
        whole.replace(CHECKPOINT)
