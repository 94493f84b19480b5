"""The words that policies and the loop share."""

from dataclasses import dataclass
from typing import Protocol

from harness.agent.actions import AnyAction
from harness.state import ExperimentState


@dataclass(frozen=True)
class Observation:
    """What a policy sees before it decides. Times are seconds since the epoch.

    `launched_unrecorded`: the newest attempt was launched by a harness that died before it could say so.
    `first_step_overdue`: the running attempt has shown no first step within its time although its metrics
    are known.
    """

    state: ExperimentState
    now: float
    first_step_overdue: bool = False
    launched_unrecorded: bool = False


class Policy(Protocol):
    """Who decides the next action: the built-in playbook, or a language model."""

    name: str

    def decide(self, observation: Observation) -> AnyAction:
        """The next action. After a refusal the same observation comes again, with `state.refusals` filled."""
        ...
