"""See `ajet`."""

from trainer_core.swarm.job import AgentJetJob as AgentJetJob
