"""The loop: observe → decide → guard → record the intent → act → record the outcome. The only place a
policy is called."""

from typing import TYPE_CHECKING

from harness.agent import guard
from harness.agent.types import Policy
from harness.state import Verdict

if TYPE_CHECKING:
    from harness.agent.hands import Hands

MAX_REFUSALS = 20


class PolicyStuckError(Exception):
    """The policy went on asking for what the guard refuses."""


async def run(hands: "Hands", policy: Policy) -> Verdict:
    """Carry the experiment to its finish and return how it ended.

    Can be killed at any instant and called again: an intent without an outcome is simply acted on once
    more, and every action finds out by itself whether its effect is already there. Raises PolicyStuckError;
    whatever an action raises is recorded and passed on, so that a person can mend it and resume.
    """
    experiment = hands.experiment
    while experiment.state.verdict is None:
        observation = hands.observe()
        action = policy.decide(observation)
        refusal = guard.check(action, observation)
        if refusal is not None:
            experiment.record("refused", action=action.kind, why=refusal)
            if len(experiment.state.refusals) > MAX_REFUSALS:
                raise PolicyStuckError(f"the policy keeps asking for what is refused: {refusal}")
            continue
        intent = experiment.record(
            "intent", action=action.kind, args=action.model_dump(mode="json", exclude={"kind"})
        )
        try:
            outcome = await hands.act(action)
        except Exception as error:
            experiment.record("action_failed", intent=intent.seq, action=action.kind, error=repr(error))
            raise
        if experiment.state.verdict is None:
            experiment.record("outcome", intent=intent.seq, action=action.kind, **outcome)
    hands.seal()
    return experiment.state.verdict
