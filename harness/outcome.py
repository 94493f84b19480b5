"""How an experiment, or a sweep, ends."""

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """How an experiment ended; the value stands in finish.flag, `exit_code` is what `harness run` returns."""

    SUCCEEDED = "succeeded"
    SUCCEEDED_WITH_CHANGED_CODE = "succeeded_with_changed_code"
    """A model changed code on the way: every number comes from the changed code."""
    FAILED = "failed"
    CANNOT_RUN = "cannot_run"
    TIMED_OUT = "timed_out"
    STOPPED_EARLY = "stopped_early"
    CANCELLED = "cancelled"

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES[self]


_EXIT_CODES = {
    Outcome.SUCCEEDED: 0,
    Outcome.SUCCEEDED_WITH_CHANGED_CODE: 0,
    Outcome.FAILED: 1,
    Outcome.CANNOT_RUN: 2,
    Outcome.TIMED_OUT: 3,
    Outcome.STOPPED_EARLY: 4,
    Outcome.CANCELLED: 130,
}
COUNTING = ("succeeded", "succeeded_with_changed_code", "stopped_early", "timed_out")
"""Outcomes of runs whose numbers count in a comparison; for one that ran out of time they may."""


@dataclass(frozen=True)
class Verdict:
    """An outcome with the reason for it in one sentence."""

    outcome: Outcome
    reason: str
