"""A client that trains and evaluates.

python client.py [--url URL] [--steps N]
"""

import argparse
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from urllib.request import Request, urlopen

from trainer_core.swarm.client import SwarmClient
from trainer_core.swarm.errors import EpisodeLostError, SwarmServerOfflineError
from trainer_core.swarm.job import AgentJetJob
from trainer_core.types import Task

WORDS = ("ab", "cd", "ef", "gh", "ij", "kl")
TASKS = [Task(task_id=word, main_query=word, answer=word[::-1]) for word in WORDS]
HELD_OUT = [Task(task_id=word, main_query=word, answer=word[::-1]) for word in ("mn", "op")]
REPEATS, WORKERS, EVALUATES_EVERY = 4, 4, 5


def answer_of(task: Task, base_url: str, api_key: str) -> str:
    """The agent: change this."""
    asked = {"model": "any", "messages": [{"role": "user", "content": task.main_query}]}
    headers = {"Authorization": f"Bearer {api_key}", "Content-Type": "application/json"}
    with urlopen(Request(f"{base_url}/chat/completions", json.dumps(asked).encode(), headers)) as answer:
        return str(json.load(answer)["choices"][0]["message"]["content"])


def play(swarm: SwarmClient, task: Task, kind: str = "train") -> float | None:
    """One episode; its reward, None where it was lost."""
    try:
        with swarm.episode(task, episode_type=kind) as episode:
            reward = float(answer_of(task, episode.base_url, episode.api_key) == task.answer)
            episode.finish(reward=reward)
    except EpisodeLostError:
        return None
    return reward


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default="http://localhost:10086")
    parser.add_argument("--steps", type=int, default=20)
    given = parser.parse_args()
    swarm = SwarmClient(given.url)
    job = AgentJetJob(
        experiment_name="reversed",
        model="tiny",
        batch_size=4,
        num_repeat=REPEATS,
        total_training_steps=given.steps,
    )
    swarm.auto_sync_train_config_and_start_engine(job)
    tries, lock = cycle([task for task in TASKS for _ in range(REPEATS)]), threading.Lock()

    def work() -> None:
        while True:
            with lock:
                task = next(tries)
            play(swarm, task)

    def evaluate() -> None:
        for step in range(0, given.steps, EVALUATES_EVERY):
            swarm.wait_for_step(step)
            rewards = [play(swarm, task, "eval") for task in HELD_OUT]
            print(f"step {step}: {rewards}", flush=True)

    with ThreadPoolExecutor(WORKERS + 1) as pool:
        for running in [*(pool.submit(work) for _ in range(WORKERS)), pool.submit(evaluate)]:
            try:
                running.result()
            except SwarmServerOfflineError as ended:
                print(ended)


if __name__ == "__main__":
    main()
