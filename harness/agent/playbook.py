"""The built-in policy: no language model, no key, the same decisions every time.

It finishes every experiment that needs no invention. It knows one repair: start again when the cause of a
failure is known to go away by itself.
"""

from harness.agent import guard
from harness.agent.actions import (
    LONGEST_WHY,
    AnyAction,
    Check,
    Collect,
    Diagnose,
    Finish,
    Launch,
    Pause,
    Prepare,
    Report,
    Stop,
    Wait,
)
from harness.agent.types import Observation
from harness.state import AttemptState, ExperimentState, Outcome
from monitors.tmux import session_name


class Playbook:
    """A `Policy` that reads the state from top to bottom."""

    name = "playbook"

    async def decide(self, observation: Observation) -> AnyAction:
        state = observation.state
        if state.collected is not None:
            return self._end(state)
        if state.attempt is None and (state.stop_asked or observation.now >= state.deadline_at):
            return Collect()
        if state.llm.gave_up and not (state.attempt is not None and state.attempt.is_running):
            return Collect()
        if not state.prepared:
            return Prepare()
        if state.attempt is not None and state.attempt.is_running:
            return self._watch(observation)
        if state.attempt is None or state.attempt.launched_at is None:
            return self._launch(observation, "the first launch")
        return self._after(observation, state.attempt)

    def _end(self, state: ExperimentState) -> AnyAction:
        assert state.collected is not None
        if state.reported is None:
            return Report()
        return Finish(outcome=Outcome(state.collected["outcome"]), reason=state.collected["reason"])

    def _watch(self, observation: Observation) -> AnyAction:
        if observation.state.stop_asked:
            return Stop(why="person", detail=f"asked by {observation.state.stop_asked}")
        if "stop" in observation.state.denied:
            return Wait()
        if observation.first_step_overdue:
            return Stop(
                why="first_step_timeout", detail="no first step was seen within the first-step time-out"
            )
        return Wait()

    def _after(self, observation: Observation, attempt: AttemptState) -> AnyAction:
        assert attempt.ended is not None
        if attempt.ended["complete"] or attempt.stop_reason in ("person", "plateau"):
            return Collect()
        if attempt.diagnosis is None:
            return Diagnose()
        hope = "This is known to pass." if observation.state.draft.is_empty else "A repair has been made."
        why = f"attempt {attempt.number} ended because: {attempt.diagnosis['cause']} {hope}"
        launch = self._launch(observation, why)
        ready_at = attempt.ended["ended_at"] + attempt.diagnosis["wait_s"]
        if isinstance(launch, Launch) and observation.now < ready_at:
            return Pause(until=ready_at, why=why)
        return launch

    def _launch(self, observation: Observation, why: str) -> AnyAction:
        """The next launch, after a check of what it would use; `Collect` where neither can help."""
        state, launch = observation.state, next_launch(observation.state, why)
        if guard.check(launch, observation) is not None or "launch" in state.denied:
            return Collect()
        if state.attempt is not None and state.attempt.launched_at is None:
            return launch  # decided before a kill, after a check of what it uses
        if state.checked is None:
            return Check()
        return launch if state.checked["can_run"] else Collect()


def next_launch(state: ExperimentState, why: str) -> Launch:
    """The launch of the next attempt, or once more of one whose launch was not recorded."""
    pending = state.attempt if state.attempt is not None and state.attempt.launched_at is None else None
    number = pending.number if pending else len(state.attempts) + 1
    return Launch(
        attempt=number,
        session=session_name(state.name, state.experiment_id[:4], number),
        attempt_id=f"{state.experiment_id}-{number:02d}",
        why=(pending.why if pending else why)[:LONGEST_WHY],
    )
