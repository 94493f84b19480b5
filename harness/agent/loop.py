"""The loop: observe → decide → guard → record the intent → act → record the outcome. The only place a
policy is called."""

from typing import TYPE_CHECKING

from harness.actions import arguments
from harness.agent.holding import is_of_the_disk
from harness.guard import rules as guard
from harness.journal.events import ActionFailed, Intent, Refused
from harness.observation import Policy
from harness.state import Verdict

if TYPE_CHECKING:
    from harness.agent.executor import Executor

MAX_REFUSALS = 20


class PolicyStuckError(Exception):
    """The policy went on asking for what the guard refuses."""


async def run(executor: "Executor", policy: Policy) -> Verdict:
    """Carry the experiment to its finish and return how it ended.

    Can be killed at any instant and called again: an intent without an outcome is simply acted on once
    more, and every action finds out by itself whether its effect is already there. Raises PolicyStuckError;
    whatever an action raises is recorded and passed on, so that a person can solve it and resume; only what
    may pass (`holding`) is just passed on.
    """
    experiment = executor.experiment
    while experiment.state.verdict is None:
        observation = executor.observe()
        action = await policy.decide(observation)
        seen_now = executor.observe()  # a model may have thought for minutes
        refusal = guard.check(action, seen_now) or executor.refuse(action)
        if refusal is None:
            action, refusal = await executor.ask_for_approval(action)
        if refusal is not None:
            seen = observation.beyond_state()
            experiment.record(Refused(action.kind, arguments(action), refusal, seen))
            if len(experiment.state.refusals) > MAX_REFUSALS:
                raise PolicyStuckError(f"the policy keeps asking for what is refused: {refusal}")
            continue
        experiment.record(Intent(action.kind, arguments(action), observation.beyond_state()))
        try:
            result = await executor.act(action)
        except Exception as error:
            if is_of_the_disk(error, executor):
                raise
            experiment.record(ActionFailed(action.kind, repr(error)))
            raise
        if result is not None:
            experiment.record(result)
    executor.seal()
    return experiment.state.verdict
