"""One episode: run the agent at a task, and judge what it did.

python run_once.py NUMBER --base-url URL --api-key KEY
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from tasks import get_training_dataset_item_list

from trainer_core.types import Task

_AGENT = Path(__file__).with_name("agent.py")
_LONGEST_S = 600


def run_agent(task: Task, base_url: str, api_key: str) -> str:
    """What the agent answers. Change: how it is started.

    Raises:
        subprocess.SubprocessError: it failed, or took too long.
    """
    environment = os.environ | {"OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": api_key}
    done = subprocess.run(
        [sys.executable, _AGENT, task.main_query],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=_LONGEST_S,
    )
    return done.stdout.strip()


def reward_of(task: Task, answer: str) -> float:
    """How good it is, 1 for right. Change: how it is judged. Here: the share of right places."""
    right = task.answer or ""
    return sum(one == other for one, other in zip(answer, right, strict=False)) / max(len(right), len(answer))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("number", type=int, help="of the task")
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--api-key", required=True)
    given = parser.parse_args()
    chosen = get_training_dataset_item_list()[given.number]
    said = run_agent(chosen, given.base_url, given.api_key)
    print(f"task {chosen.task_id}: answer {said!r}, reward {reward_of(chosen, said):.3f}")
