"""The swarm server with `_swarm_training.py` in the training's place; arguments as `ajet-swarm start`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from trainer_core.swarm import cli, training

_TRAINING = str(Path(__file__).with_name("_swarm_training.py"))
_start = subprocess.Popen


def _started(command: list[str], **how: Any) -> subprocess.Popen[bytes]:
    return _start([sys.executable, _TRAINING, *command[3:]], **how)


if __name__ == "__main__":
    training.subprocess.Popen = _started  # type: ignore[misc, assignment]
    cli.main()
