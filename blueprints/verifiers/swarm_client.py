"""The tasks of `find_letter.py` as a client of a swarm server: verifiers plays and rewards by itself.

    ajet-swarm run --conf config.yaml --client "environment/bin/python swarm_client.py"

An episode is an address and a key, which is all that an agent of verifiers wants of a model. It runs where
verifiers is installed, and this project beside it: `environment/bin/pip install -e ../..` (without extras).
"""

import asyncio
import os
import random
from collections.abc import Iterator

import verifiers.v1 as vf
from find_letter import FindLetters
from verifiers.v1.configs.client import EvalClientConfig

from trainer_core.swarm.async_client import AsyncSwarmClient
from trainer_core.swarm.errors import EpisodeLostError, SwarmServerOfflineError
from trainer_core.types import Task

REPEATS, AT_ONCE = 8, 32


async def play(swarm: AsyncSwarmClient, task: vf.Task) -> None:
    """One episode. verifiers reads a model's key from an environment variable, so each has its own."""
    async with swarm.episode(Task(str(task.data.idx), task.data.prompt)) as episode:
        variable = f"KEY_{episode.uuid}"
        os.environ[variable] = episode.api_key
        try:
            trace = await vf.make_agent(
                vf.AgentConfig(
                    model="tiny",
                    client=EvalClientConfig(base_url=episode.base_url, api_key_var=variable),
                    harness={"id": "find-letter"},
                    runtime={"type": "subprocess"},
                )
            ).run(task)
        finally:
            del os.environ[variable]
        if trace.ok:  # else the episode is given back
            episode.finish(reward=trace.reward, log_metrics=trace.metrics)


def tries() -> Iterator[vf.Task]:
    """Every task REPEATS times in a row, in another order each time round."""
    tasks = list(FindLetters(vf.TasksetConfig(id="find-letter")))
    while True:
        for task in random.sample(tasks, len(tasks)):
            yield from [task] * REPEATS


async def work(swarm: AsyncSwarmClient, waiting: Iterator[vf.Task]) -> None:
    """Play until the training ends."""
    while True:
        try:
            await play(swarm, next(waiting))
        except EpisodeLostError:
            continue
        except SwarmServerOfflineError:
            return


async def main() -> None:
    """Play AT_ONCE episodes at a time."""
    swarm, waiting = AsyncSwarmClient(os.environ["AJET_SWARM_URL"]), tries()
    await asyncio.gather(*(work(swarm, waiting) for _ in range(AT_ONCE)))


asyncio.run(main())
