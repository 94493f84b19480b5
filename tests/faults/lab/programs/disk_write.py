"""Writes rollouts until the disk is full."""

from pathlib import Path

from training import train


def save_rollouts(step: int) -> None:
    with Path(f"disk/rollouts-{step}.jsonl").open("w") as target:
        for _ in range(4000):
            target.write("x" * 1000 + "\n")


train(3)
save_rollouts(3)
