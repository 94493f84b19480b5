"""The swarm server with `_swarm_training.py` in the training's place; arguments as `ajet-swarm start`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from trainer_core.swarm import cli, training

_TRAINING = str(Path(__file__).with_name("_swarm_training.py"))


def started(command: list[str], **how: Any) -> subprocess.Popen[bytes]:
    """In the place of `Popen` where a training is started."""
    return subprocess.Popen([sys.executable, _TRAINING, *command[3:]], **how)


if __name__ == "__main__":
    training.subprocess = SimpleNamespace(Popen=started, DEVNULL=subprocess.DEVNULL)  # type: ignore[assignment]
    cli.main()
