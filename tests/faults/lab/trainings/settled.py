"""A training that remembers how far it came: the part that all trainings of the laboratory share.

`config()` reads the YAML file of the command line. `go_on(steps)` yields the steps that are left, prints each
one's metric row when it is done, and keeps its number in `checkpoint.json`, so that a later start goes on.
"""

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
    """The settings of this run."""
    return yaml.safe_load(Path(sys.argv[1]).read_text())


def go_on(steps: int) -> Iterator[int]:
    """The numbers of the steps that are left."""
    Path("pid").write_text(str(os.getpid()))
    done = json.loads(CHECKPOINT.read_text())["step"] if CHECKPOINT.exists() else 0
    say(f"training from step {done + 1}")
    for step in range(done + 1, steps + 1):
        yield step
        row(step, 0.3 + 0.02 * step, 0.03 + 0.001 * step)
        CHECKPOINT.write_text(json.dumps({"step": step}))
