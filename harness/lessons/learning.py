"""From a finished experiment to its lessons. In: its state. Out: lessons kept, signatures proposed.

An unknown failure counts as solved where the attempt that followed its repair came to its end, or where a
person explained it (`harness lessons teach`).
"""

import logging

from harness.attempt import UNKNOWN
from harness.diagnosis.signatures import SignatureError
from harness.lessons import knowledge, proposals
from harness.lessons.knowledge import RESTART, Lesson, Result
from harness.redaction import redact
from harness.state import AttemptState, ExperimentState, failure_of

_log = logging.getLogger(__name__)


def learn(state: ExperimentState, now: float) -> None:
    """Keep what this experiment teaches; nothing is kept twice, and no run fails for it."""
    try:
        _learn(state, now)
    except (OSError, SignatureError) as error:
        _log.warning("what this run teaches could not be kept: %s", error)


def _learn(state: ExperimentState, now: float) -> None:
    lessons = lessons_of(state, now)
    known = {lesson.key for lesson in knowledge.all_lessons()}
    knowledge.keep(lesson for lesson in lessons if lesson.key not in known)
    for lesson in lessons:
        if lesson.signature is None and lesson.result == "cured" and lesson.changes:
            diagnosis = state.attempts[lesson.attempt - 1].diagnosis
            assert diagnosis is not None
            proposals.propose(diagnosis, lesson.changes, f"attempt {lesson.attempt} of {state.name}")


def lessons_of(state: ExperimentState, now: float) -> list[Lesson]:
    """One lesson for each attempt whose failure was diagnosed."""
    return [
        _lesson(state, attempt, now)
        for attempt in state.attempts
        if attempt.diagnosis is not None and attempt.stop_reason not in ("person", "plateau")
    ]


def _lesson(state: ExperimentState, attempt: AttemptState, now: float) -> Lesson:
    assert attempt.diagnosis is not None
    diagnosis = attempt.diagnosis
    following = next((each for each in state.attempts if each.number == attempt.number + 1), None)
    changes = following.draft.changes if following is not None else ()
    remedies = tuple(dict.fromkeys(change.remedy for change in changes if change.remedy))
    if following is not None and not changes:
        remedies = (RESTART,)
    return Lesson(
        at=now,
        experiment_id=state.experiment_id,
        name=state.name,
        attempt=attempt.number,
        family=diagnosis.family or UNKNOWN,
        signature=diagnosis.signature,
        failure=failure_of(diagnosis),
        remedies=remedies,
        changes=tuple(redact(change.in_words) for change in changes),
        by="playbook" if all(change.remedy for change in changes) else "model",
        result=_result(attempt, following),
    )


def _result(attempt: AttemptState, following: AttemptState | None) -> Result:
    if following is None or following.ended is None:
        return "not_repaired"
    if following.ended.complete:
        return "cured"
    before = attempt.ended.last_step if attempt.ended else None
    return "moved_on" if (following.ended.last_step or 0) > (before or 0) else "no_effect"
