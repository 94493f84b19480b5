"""See `ajet`."""

from trainer_core.swarm.episode import OpenaiBaseUrlAndApiKey as OpenaiBaseUrlAndApiKey
