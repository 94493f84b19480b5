"""What no policy may do. Each rule is one small function: the action and the observation in, a refusal or
None out.

A refusal is a sentence that a policy can act on. The rules are those of the design's section 6, as far as
actions exist that could break them.
"""

from collections.abc import Callable

from harness.agent.actions import AnyAction, Finish, Launch, Stop
from harness.agent.types import Observation
from harness.state import AttemptState

MAX_ATTEMPTS = 5

Rule = Callable[[AnyAction, Observation], str | None]


def check(action: AnyAction, observation: Observation) -> str | None:
    """The first refusal, or None when the action is allowed."""
    return next((why for rule in RULES if (why := rule(action, observation)) is not None), None)


def healthy_runs_go_on(action: AnyAction, observation: Observation) -> str | None:
    """Rule 1: a healthy run is not stopped before its time."""
    if not isinstance(action, Stop):
        return None
    attempt = observation.state.attempt
    if attempt is None or not attempt.is_running:
        return "there is no running attempt to stop"
    if action.why == "person":
        return None if observation.state.stop_asked else "no person has asked for a stop"
    if action.why == "first_step_timeout":
        return None if observation.first_step_overdue else "the first step is not overdue"
    return "the attempt is running and nothing shows that it cannot recover; wait for its end or its deadline"


def one_attempt_at_a_time(action: AnyAction, observation: Observation) -> str | None:
    """Nothing is launched twice, and no attempt is skipped."""
    if not isinstance(action, Launch):
        return None
    attempt = observation.state.attempt
    if attempt is not None and attempt.is_running:
        return f"attempt {attempt.number} is still running"
    expected = 1 if attempt is None else attempt.number + (1 if attempt.launched_at is not None else 0)
    return (
        None if action.attempt == expected else f"the next launch is attempt {expected}, not {action.attempt}"
    )


def launches_fit_the_limits(action: AnyAction, observation: Observation) -> str | None:
    """Rule 3, first half: attempts and wall time are bounded, and a person's stop is final."""
    if not isinstance(action, Launch) or observation.launched_unrecorded:
        return None  # what has been launched already is only written down
    if action.attempt > MAX_ATTEMPTS:
        return f"{MAX_ATTEMPTS} attempts have been made, which is the limit"
    if observation.now >= observation.state.deadline_at:
        return "the time limit of the experiment has passed"
    if observation.state.stop_asked:
        return "a person has asked to stop this experiment"
    return None


def repairs_must_differ_or_progress(action: AnyAction, observation: Observation) -> str | None:
    """Rule 3, second half: a restart needs a transient cause, and progress since the same cause was last
    met."""
    if not isinstance(action, Launch) or action.attempt == 1:
        return None
    *earlier, latest = observation.state.attempts
    if latest.launched_at is None:
        return None
    cause = latest.diagnosis
    if cause is None:
        return f"attempt {latest.number} has not been diagnosed"
    if not cause["transient"]:
        return f"the cause ({cause['cause']}) does not go away by starting again"
    same = [
        attempt for attempt in earlier if (attempt.diagnosis or {}).get("signature") == cause["signature"]
    ]
    if same and _last_step(latest) <= max(map(_last_step, same)):
        return f"{cause['signature']} ended attempt {same[-1].number} too, and no step has been gained since"
    return None


def ends_are_real(action: AnyAction, observation: Observation) -> str | None:
    """An experiment is not finished while its training runs, nor with another outcome than the one
    collected."""
    if not isinstance(action, Finish):
        return None
    attempt, collected = observation.state.attempt, observation.state.collected
    if attempt is not None and attempt.is_running:
        return f"attempt {attempt.number} is still running"
    if collected is None:
        return "collect the results first"
    if collected["outcome"] != action.outcome.value:
        return (
            f"the outcome collected from the raw files is {collected['outcome']}, not {action.outcome.value}"
        )
    return None


def _last_step(attempt: AttemptState) -> int:
    return ((attempt.ended or {}).get("last_step")) or 0


RULES: tuple[Rule, ...] = (
    healthy_runs_go_on,
    one_attempt_at_a_time,
    launches_fit_the_limits,
    repairs_must_differ_or_progress,
    ends_are_real,
)
