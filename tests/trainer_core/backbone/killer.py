"""`python -m tests.trainer_core.backbone.killer CONFIG KILLS SEED`: train in children that are killed with
SIGKILL at a random time from when they have their model, then once to the end. Prints the last line of each
child, exits as the last one.

The libraries are imported once, before the children are made, so that the time goes into training and not
into its start.
"""

import os
import random
import signal
import sys
import time
from datetime import datetime
from pathlib import Path

from trainer_core.backbone.main import train
from trainer_core.config.load import load_config
from trainer_core.config.schema import Config

LONGEST_S = 0.3
HAS_MODEL = "taken from the cache"


def child(config: Config, console: Path) -> int:
    """Start a training in a process of its own; its id."""
    number = os.fork()
    if number == 0:
        with console.open("w") as file:
            os.dup2(file.fileno(), 1)
            os._exit(train(config))
    return number


def main(path: str, kills: int, seed: int) -> int:
    """Kill so many times, then let the training end."""
    config = load_config(Path(path), now=datetime(2026, 1, 1)).config
    chance = random.Random(seed)
    console = Path(path).with_name("console.log")
    for _ in range(kills):
        console.write_text("")
        number = child(config, console)
        while HAS_MODEL not in console.read_text():
            if os.waitid(os.P_PID, number, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                break  # by itself: told below
            time.sleep(0.005)
        time.sleep(chance.uniform(0.0, LONGEST_S))
        os.kill(number, signal.SIGKILL)
        _, status = os.waitpid(number, 0)
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            return os.waitstatus_to_exitcode(status)
        drafts = [each.name for each in Path(config.ajet.experiment_dir).rglob("*draft*")]
        told = console.read_text().splitlines()[-1][:50]
        print(f"killed after: {told}", *drafts[:1], sep="  ", flush=True)
    _, status = os.waitpid(child(config, console), 0)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
