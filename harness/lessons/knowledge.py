"""Lessons: made of a finished experiment, kept in `$XDG_STATE_HOME/harness/lessons.jsonl` (read leniently,
appended to in single writes), asked by whoever repairs.

An unknown failure counts as solved where the attempt that followed its repair came to its end, or where a
person explained it (`harness lessons teach`).
"""

import json
import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from harness.atomic_write import append_lines
from harness.attempt import UNKNOWN, Diagnosis, failure_of
from harness.diagnosis.signatures import SignatureError
from harness.lessons import proposals
from harness.redaction import NO_SECRETS, Secrets, redact
from harness.state import AttemptState, ExperimentState
from monitors.launch import state_home

Result = Literal["cured", "moved_on", "no_effect", "not_repaired"]
WORTH: dict[Result, int] = {"cured": 2, "moved_on": 1, "no_effect": -1, "not_repaired": 0}
RESTART = "wait_and_retry"
"""The remedy where an attempt was started again without a change."""


@dataclass(frozen=True)
class Lesson:
    """One failure of one attempt, what was done about it, and what came of that.

    `failure`: what makes two failures the same one (the signature's id, else the cause without what varies).
    `remedies`: names of what was applied together, RESTART for none; empty for a change that no remedy made.
    `changes`: the same in words. `by`: who decided on them. `result`: cured: the next attempt did all it
    owed; moved_on: it came further; no_effect: no step was gained."""

    at: float
    experiment_id: str
    name: str
    attempt: int
    family: str
    signature: str | None
    failure: str
    remedies: tuple[str, ...]
    changes: tuple[str, ...]
    by: Literal["playbook", "model"]
    result: Result

    @property
    def key(self) -> tuple[str, int]:
        """What there is only one lesson of."""
        return self.experiment_id, self.attempt


_LESSON = TypeAdapter(Lesson)
_log = logging.getLogger(__name__)


def path() -> Path:
    """Where this user's lessons are."""
    return state_home() / "lessons.jsonl"


def all_lessons() -> list[Lesson]:
    """Every lesson, oldest first; lines that are no lesson (damaged, or of another version) are passed over,
    and what was learnt twice (a run that was killed while it finished) counts once. Raises OSError."""
    if not path().exists():
        return []
    found: dict[tuple[str, int], Lesson] = {}
    for line in path().read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            lesson = _LESSON.validate_json(line, strict=True)
        except ValidationError:
            continue
        found[lesson.key] = lesson
    return list(found.values())


def keep(lessons: Iterable[Lesson]) -> None:
    """Append lessons; a line that was cut off stays by itself. Raises OSError."""
    text = "".join(json.dumps(asdict(lesson), ensure_ascii=False) + "\n" for lesson in lessons)
    if text:
        append_lines(path(), text, mode=0o600)


def preferred(diagnosis: Diagnosis) -> tuple[str, ...]:
    """The remedies that have helped against this failure before, the best first; no run fails for lessons
    that cannot be read."""
    failure, worth = failure_of(diagnosis), Counter[str]()
    try:
        for lesson in all_lessons():
            if lesson.failure == failure:
                worth.update(dict.fromkeys(lesson.remedies, WORTH[lesson.result]))
    except OSError as error:
        _log.warning("the lessons of earlier runs are left out: %s", error)
    return tuple(name for name, points in worth.most_common() if points > 0)


def learn(state: ExperimentState, now: float, secrets: Secrets = NO_SECRETS) -> None:
    """Keep what this experiment teaches, `secrets` masked; nothing is kept twice, and no run fails for it."""
    lessons = lessons_of(state, now, secrets)
    try:
        known = {lesson.key for lesson in all_lessons()}
        keep(lesson for lesson in lessons if lesson.key not in known)
        for lesson in lessons:
            diagnosis = state.attempts[lesson.attempt - 1].diagnosis
            is_new = lesson.signature is None and lesson.result == "cured" and lesson.changes
            if is_new and diagnosis is not None:
                proposals.propose(
                    diagnosis, lesson.changes, f"attempt {lesson.attempt} of {state.name}", secrets
                )
    except (OSError, SignatureError) as error:
        _log.warning("what this run teaches could not be kept: %s", error)


def lessons_of(state: ExperimentState, now: float, secrets: Secrets = NO_SECRETS) -> list[Lesson]:
    """One lesson for each attempt whose failure was diagnosed."""
    lessons = []
    for attempt, following in zip_longest(state.attempts, state.attempts[1:]):
        if attempt.diagnosis is None or attempt.stop_reason in ("person", "plateau"):
            continue
        changes = [one for one in following.draft.changes if one.kind != "secret"] if following else []
        remedies = following.draft.remedies if following is not None else ()
        lesson = Lesson(
            now,
            state.experiment_id,
            state.name,
            attempt.number,
            attempt.diagnosis.family or UNKNOWN,
            attempt.diagnosis.signature,
            redact(failure_of(attempt.diagnosis), secrets),
            (RESTART,) if following is not None and not changes else remedies,
            tuple(redact(change.in_words, secrets) for change in changes),
            "playbook" if all(change.remedy for change in changes) else "model",
            _result(attempt, following),
        )
        lessons.append(lesson)
    return lessons


def _result(attempt: AttemptState, following: AttemptState | None) -> Result:
    if following is None or following.ended is None:
        return "not_repaired"
    if following.ended.complete:
        return "cured"
    before = attempt.ended.last_step if attempt.ended else None
    return "moved_on" if (following.ended.last_step or 0) > (before or 0) else "no_effect"
