"""See `ajet`; the older name of `swarm_client`."""

from trainer_core.swarm.client import SwarmClient as SwarmClient
from trainer_core.swarm.executor import run_episodes_until_all_complete as run_episodes_until_all_complete
