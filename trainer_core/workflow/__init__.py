"""Workflows: what a user writes to train an agent, and the handle to the model that it gets.

    class Agent(Workflow):
        async def execute(self, task: Task, tuner: Tuner) -> WorkflowOutput: ...

From outside: `Workflow`, `WorkflowOutput`, `Tuner`, `OtherModel`, and `load_workflow` for the rollout.
"""

from trainer_core.workflow.tuner import Endpoint as Endpoint
from trainer_core.workflow.tuner import Tuner as Tuner
from trainer_core.workflow.workflow import OtherModel as OtherModel
from trainer_core.workflow.workflow import Workflow as Workflow
from trainer_core.workflow.workflow import WorkflowOutput as WorkflowOutput
