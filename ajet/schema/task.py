"""See `ajet`."""

from trainer_core.swarm.episode import WorkflowTask as WorkflowTask
from trainer_core.types import Task as Task
from trainer_core.workflow import WorkflowOutput as WorkflowOutput
