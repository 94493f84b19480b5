"""See `ajet`."""

from trainer_core.swarm.executor import PeriodicDrainThreadPoolExecutor as PeriodicDrainThreadPoolExecutor
from trainer_core.swarm.executor import (
    TaskCountLimitedThreadPoolExecutor as TaskCountLimitedThreadPoolExecutor,
)
