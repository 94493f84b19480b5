"""The names of AgentJet that its users import, for scripts written for it; the code is in `trainer_core`."""

from trainer_core.types import Task as Task
from trainer_core.workflow import Tuner as AjetTuner
from trainer_core.workflow import Workflow as Workflow
from trainer_core.workflow import WorkflowOutput as WorkflowOutput

__all__ = ["AjetTuner", "Task", "Workflow", "WorkflowOutput"]
