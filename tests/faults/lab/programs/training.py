"""The healthy part of every program: some steps, told as the bundled trainer tells them."""

import random
import sys
import time
from pathlib import Path


def say(text: str) -> None:
    """A log line with time and level, as logging would print it."""
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')},000 INFO [trainer] {text}", flush=True)


def train(steps: int, first: int = 1) -> None:
    """Print `steps` metric rows that look well."""
    chance = random.Random(first)
    say(f"started {Path(sys.argv[0]).name}")
    for step in range(first, first + steps):
        row(step, 0.3 + 0.02 * step + chance.uniform(-0.05, 0.05), chance.uniform(0.01, 0.05))


def row(step: int, reward: float, loss: float) -> None:
    """Print one metric row."""
    print(
        f"step:{step} - actor/kl_loss:{0.001 * step:.5f} - actor/pg_loss:{loss:.5f} - "
        f"critic/rewards/mean:{reward:.4f} - response_length/mean:18.2 - timing_s/step:0.05",
        flush=True,
    )
