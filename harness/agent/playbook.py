"""The built-in policy: no language model, no key, the same decisions every time.

It finishes every experiment that needs no invention. After a failure it takes the first repair of the
diagnosis (`repair.repair_plan`), prepares it, has it checked, and launches again; one that the rules refuse
is left out. A cause that is known to go away by itself is waited out. Each repair comes on top of those
before it. What the check before a launch finds is repaired in the same way, if all of it can be, and checked
again.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

from harness import actions
from harness.actions import LONGEST_WHY, Action, Collect, Launch, arguments
from harness.attempt import Diagnosis, Remedy
from harness.blueprint import names
from harness.config.edit import ConfigEditError
from harness.config.training import TrainingConfig
from harness.guard import rules as guard
from harness.observation import Observation
from harness.pending_changes import PendingChanges, with_outcome
from harness.repair import repair_plan
from harness.repair.remedies.choice import WAITING
from harness.state import AttemptState, ExperimentState
from monitors.tmux import session_name

HOUR_S = 3600.0
LONG_S = 300.0
"""A training that takes longer is tried in a smoke run before a repaired launch."""


class Playbook:
    """A `Policy` that reads the state from top to bottom."""

    name = "playbook"

    async def decide(self, observation: Observation) -> Action:
        action, state = _next(observation), observation.state
        waits = isinstance(action, Collect) and state.questions and not state.stop_asked
        has_failed = state.attempt is None or state.attempt.ended is None or not state.attempt.ended.complete
        return actions.Wait() if waits and has_failed else action

    async def try_out(self) -> str:
        return ""


def _next(observation: Observation) -> Action:
    """What is to be done, were nobody asked anything."""
    state, attempt = observation.state, observation.state.attempt
    if state.collected is not None:
        if state.reported is None:
            return actions.Report()
        return actions.Finish(outcome=state.collected.outcome, reason=state.collected.reason)
    if attempt is None and (state.stop_asked or observation.now >= state.deadline_at):
        return Collect()
    if state.llm.gave_up and not state.trains:
        return Collect()
    if not state.prepared:
        return actions.Prepare()
    if state.trains:
        return _watch(observation)
    if attempt is None or attempt.launched_at is None:
        return _launch(observation, "the first launch")
    return _after(observation, attempt)


def _watch(observation: Observation) -> Action:
    if observation.state.stop_asked:
        return actions.Stop(why="person", detail=f"asked by {observation.state.stop_asked}")
    if observation.first_step_overdue and "stop" not in observation.state.denied:
        late = "no first step was seen within the first-step time-out"
        return actions.Stop(why="first_step_timeout", detail=late)
    health = observation.health
    if health.sign == "not_finite" and "stop" not in observation.state.denied:
        return actions.Stop(why="fatal_error", detail="; ".join(health.fatal)[:LONGEST_WHY])
    return actions.Wait()


def _after(observation: Observation, attempt: AttemptState) -> Action:
    """What follows the end of an attempt."""
    state, ended, diagnosis = observation.state, attempt.ended, attempt.diagnosis
    assert ended is not None
    if ended.complete or attempt.stop_reason in ("person", "plateau"):
        return Collect()
    if diagnosis is None:
        return actions.Diagnose()
    if state.draft.is_empty:
        return _next_repair(observation, attempt, diagnosis) or Collect()
    for repair in diagnosis.repairs:  # what is left to do of the repair that was begun
        if repair.name in state.draft.remedies and repair.name not in state.unusable:
            for action in _left(repair, diagnosis, state.draft):
                if not _is_denied(action, state):
                    return action
    changed = "; ".join(f"{change.what}: {change.new}" for change in state.draft.changes)
    launch = _launch(observation, f"{_ended(attempt, diagnosis)} Changed for this: {changed}")
    if isinstance(launch, Launch) and state.smoked is None and _is_long(observation, attempt):
        smoke = actions.SmokeRun(why="to see whether what was changed starts at all")
        return smoke if guard.check(smoke, observation) is None else launch
    cannot_run = isinstance(launch, Collect) and state.checked is not None and not state.checked.can_run
    cannot_start = isinstance(launch, Launch) and state.smoked is not None and state.smoked.failed
    another = _next_repair(observation, attempt, diagnosis) if cannot_run or cannot_start else None
    return another or launch


def _is_long(observation: Observation, attempt: AttemptState) -> bool:
    """True if the training takes more than LONG_S: as long as it ran, or at the pace it had."""
    ended = attempt.ended
    if ended is None or ended.started_at is None or ended.ended_at is None:
        return False
    ran_s, total = ended.ended_at - ended.started_at, TrainingConfig.of_text(observation.config).total_steps
    return ran_s * max(1.0, (total or 0) / (ended.last_step or math.inf)) > LONG_S


def _next_repair(observation: Observation, attempt: AttemptState, diagnosis: Diagnosis) -> Action | None:
    """The first step of the next repair that can be made."""
    begun = observation.state.draft.remedies
    for repair in diagnosis.repairs:
        if repair.kind == "advice" or repair.name in begun:
            continue
        if repair.kind in WAITING:
            step = _again(observation, attempt, diagnosis, repair.wait_s)
        else:
            step = _first_step(observation, repair, diagnosis)
        if step is not None:
            return step
    return None


def _first_step(observation: Observation, repair: Remedy, diagnosis: Diagnosis) -> Action | None:
    """The first step of this repair, None where it cannot be made or no launch could follow it."""
    state, draft = observation.state, observation.state.draft
    steps = repair_plan.actions_of(repair, diagnosis)
    if not steps or repair.name in state.unusable or "launch" in state.denied:
        return None
    for step in steps:
        draft = with_outcome(draft, step.kind, arguments(step))
    after = replace(observation, state=replace(state, draft=draft))
    if guard.check_progress(next_launch(state, "to see whether one could follow"), after) is not None:
        return None
    return None if any(_is_denied(step, state) for step in steps) else steps[0]


def _again(
    observation: Observation, attempt: AttemptState, diagnosis: Diagnosis, wait_s: float
) -> Action | None:
    """The same once more, after a wait; None where that is not allowed."""
    assert attempt.ended is not None
    why = f"{_ended(attempt, diagnosis)} This is known to pass."
    ready_at = (attempt.ended.ended_at or observation.now) + wait_s
    if ready_at >= observation.state.deadline_at:
        return None
    launch = _launch(observation, why)
    if isinstance(launch, Launch) and observation.now < ready_at:
        return actions.Pause(until=ready_at, why=why)
    return None if isinstance(launch, Collect) else launch


def _launch(observation: Observation, why: str) -> Action:
    """The next launch, after a check of what it would use; `Collect` where neither can help."""
    state, launch = observation.state, next_launch(observation.state, why)
    if guard.check(launch, observation) is not None or "launch" in state.denied:
        return Collect()
    if state.attempt is not None and state.attempt.launched_at is None:
        return launch  # decided before a kill, after a check of what it uses
    if state.checked is None:
        return actions.Check()
    if not state.checked.can_run:
        return _against_problems(observation) or Collect()
    return _first_smoke_run(observation) or launch


def _first_smoke_run(observation: Observation) -> Action | None:
    """A trial of the first launch, where the author allows the run more than an hour; None for none."""
    state = observation.state
    plan, is_tried = state.blueprint, bool(state.attempts) or state.smoked is not None
    if is_tried or not state.options.smoke or names.MAX_TIME not in plan.lines or plan.max_time_s <= HOUR_S:
        return None
    smoke = actions.SmokeRun(steps=1, seconds=60, why="to see whether the command starts at all")
    return smoke if guard.check(smoke, observation) is None else None


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


def _left(repair: Remedy, cause: Diagnosis, draft: PendingChanges) -> Iterator[Action]:
    """The actions of a repair that the draft does not hold yet."""
    return (step for step in repair_plan.actions_of(repair, cause) if not repair_plan.is_done(step, draft))


def _against_problems(observation: Observation) -> Action | None:
    """The first step against what the check found; None unless something is left to do about all of it."""
    state = observation.state
    assert state.checked is not None
    try:
        config = state.draft.apply(observation.config) if observation.config else ""
    except ConfigEditError:
        return None
    steps = [_step_against(cause, observation, config) for cause in state.checked.causes]
    return steps[0] if steps and None not in steps else None


def _step_against(cause: Diagnosis, observation: Observation, config: str) -> Action | None:
    """The first step against one problem that is possible and not done yet."""
    state = observation.state
    steps = (
        step
        for repair in repair_plan.before_launch(cause, state, config)
        if repair.name not in state.unusable
        for step in _left(repair, cause, state.draft)
    )
    return next((step for step in steps if not _is_denied(step, state)), None)


def _is_denied(action: Action, state: ExperimentState) -> bool:
    return state.is_denied(action.kind, arguments(action))


def _ended(attempt: AttemptState, diagnosis: Diagnosis) -> str:
    return f"attempt {attempt.number} ended because: {diagnosis.cause}"
