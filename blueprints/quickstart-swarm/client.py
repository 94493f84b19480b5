"""A client of the swarm: runs `agent.py` at its share of the tasks, and says how good each answer was.

    AJET_SWARM_URL=… python client.py NUMBER OF

Of OF clients each has every OF-th task. The first also evaluates, every tenth step, with episodes that are
not trained on. They end when the training does.
"""

import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from trainer_core.swarm.client import SwarmClient
from trainer_core.swarm.errors import EpisodeLostError, SwarmServerOfflineError
from trainer_core.types import Task

HERE = Path(__file__).parent
REPEATS, WORKERS, EVALUATES_EVERY = 8, 4, 10
number, of = map(int, sys.argv[1:])
swarm = SwarmClient(os.environ["AJET_SWARM_URL"])


def read(name: str) -> list[Task]:
    return [Task(**json.loads(line)) for line in (HERE / name).read_text().splitlines()]


def play(task: Task, kind: str = "train") -> None:
    """One episode: the program has the address and the key of the model, the reward is for its answer."""
    with swarm.episode(task, episode_type=kind) as episode:
        model = {"OPENAI_BASE_URL": episode.base_url, "OPENAI_API_KEY": episode.api_key}
        command = [sys.executable, "-S", HERE / "agent.py", task.main_query]
        answer = subprocess.run(command, env=os.environ | model, capture_output=True, text=True, check=True)
        episode.finish(reward=float(answer.stdout.strip() == task.answer))


def tries(tasks: list[Task]) -> Iterator[Task]:
    """Every task REPEATS times in a row, in another order each time round."""
    while True:
        for task in random.sample(tasks, len(tasks)):
            yield from [task] * REPEATS


def work(waiting: Iterator[Task], lock: threading.Lock) -> None:
    while True:
        with lock:
            task = next(waiting)
        try:
            play(task)
        except EpisodeLostError:
            continue
        except SwarmServerOfflineError:
            return


def evaluate(tasks: list[Task]) -> None:
    """At the first of every ten steps that is seen, until the training ends."""
    done = -1
    while True:
        try:
            if (now := swarm.get_global_step() // EVALUATES_EVERY) > done:
                done = now
                for task in tasks:
                    play(task, "eval")
            swarm.wait_for_step((done + 1) * EVALUATES_EVERY)
        except EpisodeLostError:
            continue
        except SwarmServerOfflineError:
            return


own, lock = tries(read("training.jsonl")[number::of]), threading.Lock()
with ThreadPoolExecutor(WORKERS + 1) as pool:
    ended = [pool.submit(work, own, lock) for _ in range(WORKERS)]
    if number == 0:
        ended.append(pool.submit(evaluate, read("validation.jsonl")))
    for each in ended:
        each.result()
