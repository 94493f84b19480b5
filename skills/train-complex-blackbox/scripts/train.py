"""Train: run the agent at every task, again and again, and report the rewards.

python train.py [--url URL] [--episodes N] [--dry]
"""

import argparse
import random
from collections.abc import Iterator
from itertools import islice

from run_once import reward_of, run_agent
from tasks import get_training_dataset_item_list

from trainer_core.swarm.client import SwarmClient
from trainer_core.swarm.errors import EpisodeLostError, SwarmServerOfflineError
from trainer_core.swarm.executor import PeriodicDrainThreadPoolExecutor
from trainer_core.swarm.job import AgentJetJob
from trainer_core.types import Task

BATCH_SIZE, REPEATS, WORKERS = 8, 4, 8
JOB = {"experiment_name": "blackbox", "algorithm": "grpo", "model": "tiny", "lr": 1e-3}  # change: the model


def tries(tasks: list[Task]) -> Iterator[Task]:
    """Every task REPEATS times in a row, without end."""
    while True:
        for task in random.sample(tasks, len(tasks)):
            yield from [task] * REPEATS


def play(swarm: SwarmClient, task: Task, *, is_dry: bool = False) -> float | None:
    """One episode; its reward, None where it was lost."""
    try:
        with swarm.episode(task, discard_episode_timeout=600) as episode:
            reward = reward_of(task, run_agent(task, episode.base_url, episode.api_key))
            if not is_dry:  # what is not finished is given back
                episode.finish(reward=reward)
    except EpisodeLostError:
        return None
    return reward


def show(rewards: list[float | None]) -> None:
    """Print those that have come."""
    for reward in rewards:
        print("lost" if reward is None else f"reward {reward:.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default="http://localhost:10086")
    parser.add_argument("--episodes", type=int, default=None, help="end after so many")
    parser.add_argument("--dry", action="store_true", help="train nothing")
    given = parser.parse_args()
    swarm = SwarmClient(given.url)
    job = AgentJetJob(batch_size=BATCH_SIZE, num_repeat=REPEATS, max_env_worker=2 * WORKERS, **JOB)
    swarm.auto_sync_train_config_and_start_engine(job)
    pool = PeriodicDrainThreadPoolExecutor(WORKERS)
    try:
        for task in islice(tries(get_training_dataset_item_list()), given.episodes):
            show(pool.submit_with_periodic_drain(play, swarm, task, is_dry=given.dry)[1])
        show(pool.drain())
    except SwarmServerOfflineError as ended:
        print(f"the training has ended: {ended}")
    finally:
        pool.shutdown()


if __name__ == "__main__":
    main()
