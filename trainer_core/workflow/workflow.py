"""A workflow: one agent at one task, from the first call to the reward."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from trainer_core.types import Task, TrainingError, check_reward
from trainer_core.user_code import load_named

if TYPE_CHECKING:
    from trainer_core.workflow.tuner import Tuner

KEY = "rollout.user_workflow"


@dataclass(frozen=True)
class WorkflowOutput:
    """What came of an episode."""

    reward: float | None = None
    """None: the judge of the config decides."""
    is_success: bool | None = None
    """None: solved when the reward is 1 or more."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """For the judge and the record, as `Episode.metadata`."""
    log_metrics: Mapping[str, float] = field(default_factory=dict)
    """Their means over the step's episodes are logged as `workflow/<name>`."""
    untrained_agents: frozenset[str] = frozenset()
    """Agents that turned out not to be trained in this episode."""


@dataclass(frozen=True)
class OtherModel:
    """A model behind an OpenAI-compatible endpoint that answers for an agent which is not trained."""

    base_url: str
    """Ends in /v1, as a rule."""
    api_key_env: str
    """The environment variable that holds the key."""
    model: str


class Workflow:
    """The base of a user's agents; an instance plays one episode, so `self` is its own."""

    name: ClassVar[str] = ""
    """For messages; empty: the class's name."""
    trainable_targets: ClassVar[list[str] | None] = None
    """The agents whose calls are trained, by the name they ask `tuner(agent_name=…)` with; None: all."""
    other_models: ClassVar[Mapping[str, OtherModel]] = {}
    """Agents that another model answers."""

    async def execute(self, task: Task, tuner: Tuner) -> WorkflowOutput | float | None:
        """Play the task with the model behind `tuner`; a plain `def` may block."""
        raise NotImplementedError


@dataclass(frozen=True)
class LoadedWorkflow:
    """A user's workflow, ready to make episodes."""

    protocol: str
    """What the config says, for another process to load it again."""
    name: str
    make: Callable[[], Callable[[Task, Tuner], Any]]
    """A new `execute`, of an instance of its own."""
    is_async: bool
    trainable: frozenset[str] | None
    other_models: Mapping[str, OtherModel]


def load_workflow(protocol: str) -> LoadedWorkflow:
    """The workflow class or `(task, tuner)` function that `package.module->Name` or `file.py->Name` names.

    Raises:
        TrainingError: it is not there, cannot be made, or is neither.
    """
    named = load_named(protocol, KEY)
    if not isinstance(named, type):
        if not callable(named) or not _takes_two(named):
            raise TrainingError(f"{KEY}: {protocol} is neither a Workflow nor a function of (task, tuner)")
        return LoadedWorkflow(
            protocol, named.__name__, lambda: named, inspect.iscoroutinefunction(named), None, {}
        )
    try:
        first = named()
    except Exception as error:
        raise TrainingError(f"{KEY}: {protocol}() failed with {type(error).__name__}: {error}") from error
    execute = getattr(first, "execute", None)
    is_missing = getattr(execute, "__func__", None) is Workflow.execute
    if is_missing or not callable(execute) or not _takes_two(execute):
        raise TrainingError(f"{KEY}: {protocol} has no method execute(self, task, tuner)")
    trainable = getattr(named, "trainable_targets", None)
    if trainable is not None and (isinstance(trainable, str) or not list(trainable)):
        raise TrainingError(
            f"{KEY}: {protocol}.trainable_targets is {trainable!r}. Write a list of agent names such as "
            '["planner"], or None to train all'
        )
    return LoadedWorkflow(
        protocol,
        getattr(named, "name", "") or named.__name__,
        lambda: named().execute,
        inspect.iscoroutinefunction(execute),
        None if trainable is None else frozenset(trainable),
        dict(getattr(named, "other_models", {})),
    )


def api_key_of(agent: str, model: OtherModel) -> str:
    """The key of an outside model.

    Raises:
        TrainingError: the environment does not have it.
    """
    found = os.environ.get(model.api_key_env)
    if not found:
        raise TrainingError(
            f"{KEY}: other_models[{agent!r}] reads its key from the environment variable "
            f"{model.api_key_env}, which is not set. Export it before the training starts"
        )
    return found


def output_of(returned: object) -> WorkflowOutput:
    """What a workflow returned: an output, a bare reward, or None for the judge to decide.

    Raises:
        TypeError, ValueError: it is something else, or the reward is no finite number.
    """
    output = returned if isinstance(returned, WorkflowOutput) else WorkflowOutput(returned)  # type: ignore[arg-type]
    form = "a workflow returns a number, a WorkflowOutput, or None for the judge of the config to decide"
    try:
        reward = None if output.reward is None else float(output.reward)
        metrics = {name: float(value) for name, value in output.log_metrics.items()}
    except (TypeError, ValueError):
        told = f"reward {output.reward!r}, log_metrics {output.log_metrics!r}"
        raise TypeError(f"{told}: not numbers; {form}") from None
    if reward is not None:
        check_reward(reward, "the reward is")
    return replace(output, reward=reward, log_metrics=metrics)


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except (TypeError, ValueError):
        return False
    return True
