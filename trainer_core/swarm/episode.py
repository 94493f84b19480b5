"""An episode as its client holds it, and as it is reported."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trainer_core.swarm.errors import SwarmRefusedError
from trainer_core.types import Task, check_reward
from trainer_core.workflow.workflow import WorkflowOutput


@dataclass(frozen=True)
class OpenaiBaseUrlAndApiKey:
    """Where the model of one episode is called, as `OpenAI(base_url=…, api_key=…)`."""

    base_url: str
    """Ends in /v1."""
    api_key: str
    episode_uuid: str = ""


@dataclass(frozen=True)
class WorkflowTask:
    """What AgentJet's agents are given: the task, and more that no example of it reads."""

    task: Task


@dataclass
class Episode:
    """What `client.episode(task)` gives."""

    task: Any
    base_url: str
    """For an OpenAI client; ends in /v1."""
    api_key: str
    """Of this episode alone."""
    uuid: str
    output: WorkflowOutput | None = None
    answer: dict[str, Any] = field(default_factory=dict)
    """What the server said about its end: `weight_version`, `recorded_calls`."""

    def finish(
        self,
        reward: float,
        is_success: bool | None = None,
        metadata: Mapping[str, Any] | None = None,
        log_metrics: Mapping[str, float] | None = None,
    ) -> None:
        """Say what came of it; it is reported at the end of the `with` block."""
        self.output = WorkflowOutput(reward, is_success, metadata or {}, log_metrics or {})


def report(task: Any, output: Any) -> dict[str, Any]:
    """What `/end_episode` is told of a task (or its task_id) and a `WorkflowOutput`.

    Raises:
        SwarmRefusedError: the reward is not a finite number (code `invalid_reward`).
    """
    task_id = task if isinstance(task, str) else str(task.task_id)
    try:
        for reward in output.reward if isinstance(output.reward, list | tuple) else [output.reward]:
            check_reward(float(0.0 if reward is None else reward), "the reward is")
    except (TypeError, ValueError) as error:
        raise SwarmRefusedError(str(error), "invalid_reward") from None
    told = {
        "reward": output.reward,
        "is_success": output.is_success,
        "metadata": {"task_id": task_id, **output.metadata},
        "log_metrics": output.log_metrics,
    }
    about = {"main_query": getattr(task, "main_query", ""), "metadata": getattr(task, "metadata", {})}
    return {"task_id": task_id, "workflow_output": _plain(told), "task": _plain(about)}


def _plain(value: Any) -> Any:
    """What JSON can hold: numbers of numpy and torch as numbers, NaN as null, anything else as text."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(inner) for inner in value]
    return _plain(value.tolist()) if hasattr(value, "tolist") else str(value)
