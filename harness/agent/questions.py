"""When a language model is asked, and what: the few moments of a run in which judgement is needed.

A topic names a question once and for all in the life of an experiment (`failure:2`), and begins with what is
its template in `templates/prompts/`. While nothing is in question, there is none, and no call is made.
"""

import math
import re

from harness import actions, launching
from harness.actions import Action
from harness.guard.rules import MAX_ATTEMPTS
from harness.journal.model_events import Consult
from harness.llm_use import WORDS
from harness.observation import Observation, Progress
from harness.state import AttemptState, ExperimentState

LOOK_FROM_S = 1800.0
"""A training that is not expected to take this long is not looked at: it is over before a look could help."""
_LOOKS = {"two_thirds": 2 / 3, "third": 1 / 3, "first": 0.0}
"""When a healthy training is looked at: the share of its steps that is done, the latest first."""


def question(observation: Observation, fallback: Action) -> Consult | None:
    """What to ask, given what the built-in playbook would do; None where its action is good enough."""
    state, attempt, plan = observation.state, observation.state.attempt, observation.state.blueprint
    if state.verdict is not None or state.stop_asked:
        return None
    if state.collected is not None:
        return Consult(WORDS, "the results are to be read") if _wants_words(state) else None
    if observation.now >= state.deadline_at or not state.prepared or "launch" in state.denied:
        return None
    if state.llm.gave_up:
        return None
    if attempt is not None and attempt.is_running:
        return _alarm(observation, attempt) or _look(observation, attempt)
    if (
        attempt is None
        and plan.yaml_path is None
        and plan.launch_command is None
        and state.draft.settings is None
    ):
        return Consult("config:1", "the blueprint names no config")
    if not isinstance(fallback, actions.Collect) or len(state.attempts) >= MAX_ATTEMPTS:
        return None
    if state.checked is not None and not state.checked.can_run:
        return Consult(f"check:{len(state.attempts) + 1}", "the check before the launch failed")
    if attempt is None or (attempt.ended is not None and attempt.ended.complete):
        return None
    if attempt.diagnosis is not None and attempt.stop_reason not in ("person", "plateau"):
        why = f"no built-in repair for attempt {attempt.number}: {attempt.diagnosis.cause}"
        return Consult(f"failure:{attempt.number}", why)
    return None


def tools(kind: str, state: ExperimentState) -> tuple[type[Action], ...]:
    """What a question of this kind is sent in this run: the tools that it can use there, the same at every
    time."""
    plan = state.blueprint
    useless: set[type[Action]] = set()
    if not launching.has_config(plan):
        useless |= {actions.ReadConfig, actions.ListKeys, actions.EditConfig}
    if plan.launch_command is None:
        useless.add(actions.EditArguments)
    if not plan.patchable:
        useless.add(actions.PatchCode)
    if state.options.answer_within_s == 0:
        useless.add(actions.AskPerson)
    found = state.attempt.diagnosis if state.attempt is not None else None
    if found is None or not found.is_open:
        useless.add(actions.NameCause)
    return tuple(tool for tool in actions.TOOLS[kind] if tool not in useless)


def _wants_words(state: ExperimentState) -> bool:
    """True if a model is to be asked for words about the results. The measured report stands by then."""
    was_asked = WORDS in state.llm.unanswered  # once in a run: after that, with `harness narrate`
    has_run = state.attempt is not None and state.attempt.launched_at is not None
    return state.reported is not None and has_run and not was_asked and state.options.words


def moved_on(topic: str, observation: Observation) -> str | None:
    """Why a question that was put is none any more; None while it still stands."""
    state = observation.state
    attempt, (kind, number) = state.attempt, topic.split(":")[:2]
    if state.stop_asked:
        return f"stopped on request of {state.stop_asked}"
    if kind == "results":
        return None
    if state.collected is not None:
        return "the results were collected"
    if observation.now >= state.deadline_at and not state.questions:
        return "the time limit has passed"
    if kind in ("alarm", "look"):
        same = attempt is not None and attempt.is_running and attempt.number == int(number)
        return None if same else f"attempt {number} is over"
    before = int(number) if kind == "failure" else int(number) - 1  # attempts there were when it was put
    return None if len(state.attempts) == before else f"attempt {before + 1} was launched"


def _alarm(observation: Observation, attempt: AttemptState) -> Consult | None:
    """A running attempt that may be ended; asked again each time its age has doubled."""
    health, launched_at = observation.health, attempt.launched_at
    assert launched_at is not None  # it is running
    age = int((observation.now - launched_at) / 3600).bit_length()
    if health.fatal:
        topic = f"alarm:{attempt.number}:fatal_error:{age}:{_slug(health.fatal[0])}"
        return Consult(topic, health.fatal[0], {"alarm": list(health.fatal)})
    if health.plateau is not None and health.second_half:
        topic = f"alarm:{attempt.number}:plateau:{age}"
        return Consult(topic, health.plateau, {"alarm": [health.plateau]})
    return None


def _look(observation: Observation, attempt: AttemptState) -> Consult | None:
    """A long, healthy training: at its first step, at a third, at two thirds; the latest that has come."""
    progress = observation.progress
    if progress is None or progress.expected_s < LOOK_FROM_S or not observation.state.options.looks:
        return None
    share = progress.share or 0.0
    which = next(name for name, due in _LOOKS.items() if share >= due)
    where = f"{share:.0%} of its steps are done" if progress.share is not None else "its end is not known"
    return Consult(f"look:{attempt.number}:{which}", f"a look: {where}", {"where": where})


def next_look_s(progress: Progress, left_s: float | None) -> float:
    """Seconds until a training, `left_s` before its end, comes to its next look; inf where it has none."""
    if progress.share is None:
        until_s = LOOK_FROM_S - progress.expected_s
        return until_s if until_s > 0 else math.inf
    if not left_s or progress.expected_s < LOOK_FROM_S:
        return math.inf
    due = min((share for share in _LOOKS.values() if share > progress.share), default=math.inf)
    return left_s * (due - progress.share) / (1 - progress.share)


def _slug(sentence: str) -> str:
    """What kind of alarm it is: its words without its numbers."""
    return re.sub(r"[^a-z]+", "-", re.sub(r"\d\S*", "", sentence.lower())).strip("-")[:40]
