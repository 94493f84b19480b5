"""A worker of a process pool is killed."""

import os
import signal
from concurrent.futures import ProcessPoolExecutor

from training import train


def rollout(task: int) -> int:
    if task == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return task


if __name__ == "__main__":
    train(2)
    with ProcessPoolExecutor(1) as pool:
        print(list(pool.map(rollout, range(4))))
