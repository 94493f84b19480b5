"""FrozenLake of gymnasium, played in text: the model sees the map and says L, D, R or U, until it has crossed
the ice, fallen into a hole, or taken too long.

`python agent.py` writes the tasks: every cell of the ice to start from in training, the corner in validation.
The answers in training are for the warm-up alone: each start with each letter, so that it learns to say one
letter, and nothing about which.
"""

from __future__ import annotations

import json
from pathlib import Path

import gymnasium

from trainer_core.types import Task
from trainer_core.workflow import Tuner, Workflow, WorkflowOutput

LAKE = ["SFFF", "FHFH", "FFFH", "HFFG"]
LETTERS = "LDRU"
MOST_MOVES = 10


class FrozenLake(Workflow):
    """1 for the goal, else 0."""

    async def execute(self, task: Task, tuner: Tuner) -> WorkflowOutput:
        client = tuner.as_raw_openai_sdk_client()
        lake = gymnasium.make(
            "FrozenLake-v1", desc=task.metadata["lake"], is_slippery=False, max_episode_steps=MOST_MOVES
        )
        cell, _ = lake.reset(seed=0)
        reward, moves, is_over = 0.0, 0, False
        while not is_over:
            answer = await client.chat.completions.create(
                model=tuner.model, messages=[{"role": "user", "content": seen(task.metadata["lake"], cell)}]
            )
            said = answer.choices[0].message.content or ""
            if said not in tuple(LETTERS):
                break
            cell, reward, has_ended, is_late, _ = lake.step(LETTERS.index(said))
            moves, is_over = moves + 1, has_ended or is_late
        return WorkflowOutput(float(reward), log_metrics={"moves": moves})


def seen(lake: list[str], cell: int) -> str:
    """The map with the agent, A, on it."""
    text = "".join(lake).replace("S", "F")
    text = text[:cell] + "A" + text[cell + 1 :]
    return "\n".join(text[row : row + 4] for row in range(0, 16, 4))


def beginning_at(cell: int) -> list[str]:
    """The map with the start at another cell."""
    text = "".join(LAKE).replace("S", "F")
    text = text[:cell] + "S" + text[cell + 1 :]
    return [text[row : row + 4] for row in range(0, 16, 4)]


def row(name: str, cell: int, answer: str = "") -> str:
    """One task as a line."""
    lake = beginning_at(cell)
    return json.dumps({"task_id": name, "main_query": seen(lake, cell), "answer": answer, "lake": lake})


if __name__ == "__main__":
    ice = [cell for cell, kind in enumerate("".join(LAKE)) if kind in "SF"]
    starts = [(cell, letter, again) for cell in ice for letter in LETTERS for again in range(2)]
    rows = [row(f"from-{cell}-{letter}-{again}", cell, letter) for cell, letter, again in starts]
    Path("training.jsonl").write_text("\n".join(rows) + "\n")
    Path("validation.jsonl").write_text(row("from-the-corner", 0) + "\n")
