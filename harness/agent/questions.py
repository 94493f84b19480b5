"""When a language model is asked, and what: the few moments of a run in which judgement is needed.

A topic names a question once and for all in the life of an experiment (`failure:2`). While nothing is in
question, there is none, and no call is made.
"""

from dataclasses import dataclass, field
from typing import Any

from harness.agent.actions import AnyAction, Collect
from harness.agent.guard import MAX_ATTEMPTS
from harness.agent.types import Observation
from harness.state import AttemptState, ExperimentState


@dataclass(frozen=True)
class Question:
    """`kind` is the template in `templates/prompts/`; `topic` begins with it; `facts` fill the template."""

    kind: str
    topic: str
    why: str
    facts: dict[str, Any] = field(default_factory=dict)


def question(observation: Observation, fallback: AnyAction) -> Question | None:
    """What to ask, given what the built-in playbook would do; None where its action is good enough."""
    state = observation.state
    if state.verdict is not None or state.stop_asked:
        return None
    attempt = state.attempt
    if state.collected is not None:
        return _results(state) if attempt is not None and attempt.launched_at is not None else None
    if observation.now >= state.deadline_at or not state.prepared or state.denied:
        return None
    if attempt is not None and attempt.is_running:
        return _alarm(observation, attempt)
    if attempt is None and _needs_config(state):
        return Question("config", "config:1", "the blueprint names no config")
    if not isinstance(fallback, Collect) or len(state.attempts) >= MAX_ATTEMPTS:
        return None
    if state.checked is not None and not state.checked["can_run"]:
        return Question("check", f"check:{len(state.attempts) + 1}", "the check before the launch failed")
    if attempt is not None and attempt.diagnosis is not None and not _ended_as_it_should(attempt):
        why = f"no built-in repair for attempt {attempt.number}: {attempt.diagnosis['cause']}"
        return Question("failure", f"failure:{attempt.number}", why)
    return None


def still_open(topic: str, observation: Observation) -> bool:
    """Whether a question that was put is still one: the situation may have moved on meanwhile."""
    state = observation.state
    kind, number = topic.split(":")[:2]
    attempt = state.attempt
    if state.stop_asked or state.verdict is not None:
        return False
    if kind == "results":
        return state.collected is not None and state.reported is None
    if state.collected is not None or observation.now >= state.deadline_at:
        return False
    running = attempt is not None and attempt.is_running
    if kind == "alarm":
        return running and attempt is not None and attempt.number == int(number)
    if kind == "failure":
        return not running and len(state.attempts) == int(number)
    return not running and len(state.attempts) == int(number) - 1  # check, config: before that launch


def _results(state: ExperimentState) -> Question | None:
    if state.reported is not None:
        return None
    return Question("results", "results:1", "the results are to be read")


def _alarm(observation: Observation, attempt: AttemptState) -> Question | None:
    """A running attempt that may be ended; asked again each time its age has doubled."""
    health, launched_at = observation.health, attempt.launched_at
    assert launched_at is not None  # it is running
    age = int((observation.now - launched_at) / 3600).bit_length()
    if health.fatal:
        topic = f"alarm:{attempt.number}:fatal_error:{age}"
        return Question("alarm", topic, health.fatal[0], {"alarm": list(health.fatal)})
    if health.plateau is not None and health.second_half:
        topic = f"alarm:{attempt.number}:plateau:{age}"
        return Question("alarm", topic, health.plateau, {"alarm": [health.plateau]})
    return None


def _needs_config(state: ExperimentState) -> bool:
    plan = state.plan
    unwritten = plan["yaml_path"] is None and plan["launch_command"] is None
    return unwritten and state.draft.settings is None


def _ended_as_it_should(attempt: AttemptState) -> bool:
    ended = attempt.ended or {}
    return bool(ended.get("complete")) or attempt.stop_reason in ("person", "plateau")
