"""The built-in policy: no language model, no key, the same decisions every time.

It finishes every experiment that needs no invention. After a failure it takes the first repair of the
diagnosis (`repair.repair_plan`), prepares it, has it checked, and launches again; one that the rules refuse
is left out. A cause that is known to go away by itself is waited out. Each repair comes on top of those
before it. What the check before a launch finds is repaired in the same way, if all of it can be, and checked
again.
"""

from collections.abc import Iterator
from dataclasses import replace

from harness.actions import (
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
    arguments,
)
from harness.attempt import Diagnosis, Remedy
from harness.config.edit import ConfigEditError
from harness.guard import rules as guard
from harness.observation import Observation
from harness.pending_changes import PendingChanges, with_outcome
from harness.repair import repair_plan
from harness.repair.remedies.choice import WAITING
from harness.state import AttemptState, ExperimentState
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
        return Finish(outcome=state.collected.outcome, reason=state.collected.reason)

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
        if attempt.ended.complete or attempt.stop_reason in ("person", "plateau"):
            return Collect()
        if attempt.diagnosis is None:
            return Diagnose()
        if not observation.state.draft.is_empty:
            return self._repair(observation, attempt, attempt.diagnosis)
        return self._next_repair(observation, attempt, attempt.diagnosis) or Collect()

    def _next_repair(
        self, observation: Observation, attempt: AttemptState, diagnosis: Diagnosis
    ) -> AnyAction | None:
        """The first step of the next repair that can be made."""
        begun = observation.state.draft.remedies
        steps = (
            self._first_action(observation, attempt, repair)
            for repair in _repairs(diagnosis)
            if repair.name not in begun
        )
        return next((step for step in steps if step is not None), None)

    def _repair(self, observation: Observation, attempt: AttemptState, diagnosis: Diagnosis) -> AnyAction:
        """What is left to do of the repair that was begun, then the launch; where the check refuses that, the
        next repair on top."""
        state = observation.state
        for repair in _repairs(diagnosis):
            if repair.name in state.draft.remedies and repair.name not in state.unusable:
                for action in _left(repair, diagnosis, state.draft):
                    if not _is_denied(action, state):
                        return action
        changed = "; ".join(f"{change.what}: {change.new}" for change in state.draft.changes)
        action = self._launch(observation, f"{_ended(attempt, diagnosis)} Changed for this: {changed}")
        if isinstance(action, Collect) and state.checked is not None and not state.checked.can_run:
            return self._next_repair(observation, attempt, diagnosis) or action
        return action

    def _first_action(
        self, observation: Observation, attempt: AttemptState, repair: Remedy
    ) -> AnyAction | None:
        """The first step of this repair, None where it cannot be made or no launch could follow it."""
        assert attempt.ended is not None and attempt.diagnosis is not None
        state, diagnosis = observation.state, attempt.diagnosis
        if repair.kind in WAITING:
            return self._again(observation, attempt, diagnosis, repair.wait_s)
        steps = repair_plan.actions_of(repair, diagnosis)
        if not steps or repair.name in state.unusable:
            return None
        draft = state.draft
        for step in steps:
            draft = with_outcome(draft, step.kind, arguments(step))
        after = replace(observation, state=replace(state, draft=draft))
        launch = next_launch(state, "to see whether one could follow")
        may_follow = guard.check_progress(launch, after) is None and "launch" not in state.denied
        return steps[0] if may_follow and not any(_is_denied(step, state) for step in steps) else None

    def _again(
        self, observation: Observation, attempt: AttemptState, diagnosis: Diagnosis, wait_s: float
    ) -> AnyAction | None:
        """The same once more, after a wait; None where that is not allowed."""
        assert attempt.ended is not None
        why = f"{_ended(attempt, diagnosis)} This is known to pass."
        ready_at = (attempt.ended.ended_at or observation.now) + wait_s
        if ready_at >= observation.state.deadline_at:
            return None
        launch = self._launch(observation, why)
        if isinstance(launch, Launch) and observation.now < ready_at:
            return Pause(until=ready_at, why=why)
        return None if isinstance(launch, Collect) else launch

    def _launch(self, observation: Observation, why: str) -> AnyAction:
        """The next launch, after a check of what it would use; `Collect` where neither can help."""
        state, launch = observation.state, next_launch(observation.state, why)
        if guard.check(launch, observation) is not None or "launch" in state.denied:
            return Collect()
        if state.attempt is not None and state.attempt.launched_at is None:
            return launch  # decided before a kill, after a check of what it uses
        if state.checked is None:
            return Check()
        return launch if state.checked.can_run else (_against_problems(observation) or Collect())


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


def _repairs(diagnosis: Diagnosis) -> list[Remedy]:
    """The repairs that were found with the diagnosis."""
    return [repair for repair in diagnosis.repairs if repair.kind != "advice"]


def _left(repair: Remedy, diagnosis: Diagnosis, draft: PendingChanges) -> Iterator[AnyAction]:
    """The actions of a repair that the draft does not hold yet."""
    for action in repair_plan.actions_of(repair, diagnosis):
        if not repair_plan.is_done(action, draft):
            yield action


def _against_problems(observation: Observation) -> AnyAction | None:
    """The first step against what the check found; None unless something is left to do about all of it."""
    state = observation.state
    assert state.checked is not None
    causes = state.checked.causes
    try:
        config = state.draft.apply(observation.config) if observation.config else ""
    except ConfigEditError:
        return None
    steps = [_step_against(cause, observation, config) for cause in causes]
    return steps[0] if steps and None not in steps else None


def _step_against(cause: Diagnosis, observation: Observation, config: str) -> AnyAction | None:
    """The first step against one problem that is possible and not done yet."""
    state = observation.state
    return next(
        (
            action
            for repair in repair_plan.before_launch(cause, state, config)
            if repair.name not in state.unusable
            for action in _left(repair, cause, state.draft)
            if not _is_denied(action, state)
        ),
        None,
    )


def _is_denied(action: AnyAction, state: ExperimentState) -> bool:
    return state.is_denied(action.kind, arguments(action))


def _ended(attempt: AttemptState, diagnosis: Diagnosis) -> str:
    return f"attempt {attempt.number} ended because: {diagnosis.cause}"
