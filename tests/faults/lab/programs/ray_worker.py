"""An actor of Ray is killed while it works."""

import os
import signal

import ray
from training import train


@ray.remote
class Worker:
    def rollout(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


train(2)
ray.init(num_cpus=1, include_dashboard=False)
ray.get(Worker.remote().rollout.remote())
