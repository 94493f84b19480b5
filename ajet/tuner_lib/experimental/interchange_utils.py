"""See `ajet`."""

from trainer_core.swarm.wire import Throttle as SwarmThrottlePolicy

__all__ = ["SwarmThrottlePolicy"]
