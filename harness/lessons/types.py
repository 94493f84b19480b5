"""A lesson: one failure of one attempt, what was done about it, and what came of that."""

from dataclasses import dataclass
from typing import Literal

Result = Literal["cured", "moved_on", "no_effect", "not_repaired"]
RESTART = "wait_and_retry"
"""The remedy where an attempt was started again without a change."""


@dataclass(frozen=True)
class Lesson:
    """`failure`: what makes two failures the same one (the signature's id, else the cause without what
    varies). `remedies`: names of what was applied together, RESTART for none; empty for a change that no
    remedy made. `changes`: the same in words. `by`: who decided on them. `result`: cured: the next attempt
    did all it owed; moved_on: it came further; no_effect: no step was gained."""

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
