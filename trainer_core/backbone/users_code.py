"""The judge and the workflow that a config names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trainer_core.judge.choose import is_named, make_judge
from trainer_core.judge.judge import Judge
from trainer_core.workflow.workflow import LoadedWorkflow, load_workflow

if TYPE_CHECKING:
    from trainer_core.config.schema import Ajet


def users_code(ajet: Ajet, folder: Path | None) -> tuple[Judge | None, LoadedWorkflow | None]:
    """The judge, None where the workflow alone gives rewards, and the workflow, None where the config names
    none. `folder`: where a judge keeps what a resumed run has to find again.

    Raises:
        TrainingError: one of them cannot be loaded.
    """
    if ajet.enable_swarm_mode:  # clients bring both
        return None, None
    settings, named = ajet.task_judge, ajet.rollout.user_workflow
    judge = None
    if named is None or settings.judge_type != "customized_protocol" or is_named(settings):
        judge = make_judge(settings, own_thread=ajet.backbone != "debug", folder=folder)
    return judge, None if named is None else load_workflow(named)
