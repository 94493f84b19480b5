"""See `ajet`."""

from trainer_core.swarm.executor import PeriodicDrainThreadPoolExecutor as PeriodicDrainThreadPoolExecutor
