"""See `ajet`."""

from trainer_core.swarm.async_client import AsyncSwarmClient as AsyncSwarmClient
from trainer_core.swarm.client import SwarmClient as SwarmClient
from trainer_core.swarm.client import several as several
from trainer_core.swarm.errors import EpisodeLostError as EpisodeLostError
from trainer_core.swarm.errors import SwarmConfigError as SwarmConfigError
from trainer_core.swarm.errors import SwarmError as SwarmError
from trainer_core.swarm.errors import SwarmRefusedError as SwarmRefusedError
from trainer_core.swarm.errors import SwarmServerOfflineError as SwarmServerOfflineError
from trainer_core.swarm.executor import run_episodes_until_all_complete as run_episodes_until_all_complete
