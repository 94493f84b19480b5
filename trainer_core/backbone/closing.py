"""The line a training ends with: what it came to and where that is, read from what it left on the disk."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

PASS_RATE, VALIDATED_REWARD, TRAINED_REWARD = (
    "val/task_pass_rate@1",
    "val/mean_reward",
    "critic/rewards/mean",
)


def closing_line(end: str, folder: Path, checkpoint: Path | None) -> str:
    """`end` (how it ended), the last step, the leading number before and after, the folder, the checkpoint.

    The number that leads is the pass rate, the mean reward of validation where no task was ever solved, and
    the mean reward of training where nothing was validated.
    """
    rows = _rows(folder / "metrics.jsonl")
    told = f"{end} after step {rows[-1]['step']}" if rows else f"{end} before the first step"
    if number := _leading_number(rows):
        told += f": {number}"
    told += f"; results in {folder}"
    if checkpoint is None:
        return told
    inside = checkpoint.is_relative_to(folder)
    return f"{told}, model in {checkpoint.relative_to(folder) if inside else checkpoint}"


def _leading_number(rows: Sequence[Mapping[str, float]]) -> str:
    """`name before -> after (step 0 -> 240)`; empty where there is none."""
    solved = any(row.get(PASS_RATE) for row in rows)
    for name in (PASS_RATE, VALIDATED_REWARD, TRAINED_REWARD)[0 if solved else 1 :]:
        if known := [row for row in rows if name in row]:
            ends = known[:1] + known[1:][-1:]
            values = " -> ".join(f"{row[name]:.4g}" for row in ends)
            return f"{name} {values} (step {' -> '.join(str(row['step']) for row in ends)})"
    return ""


def _rows(path: Path) -> list[dict[str, float]]:
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]  # a crash can cut the last one short
