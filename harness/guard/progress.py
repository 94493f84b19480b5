"""True if a failure has come back, and whether what was tried against it helped.

In: the attempts of an experiment, oldest first. Out: which of them failed alike, how often that came to
nothing, and what was tried in between.
"""

from collections.abc import Sequence

from harness.state import AttemptState, failure_of

MAX_SAME_CAUSE = 3
"""How often a failure may come back without a step gained, whatever was repaired in between."""
MAX_SAME_TRANSIENT = 2
"""The same where nothing is repaired, because the cause passes by itself."""
WAITED = "wait_and_retry"


def alike(attempts: Sequence[AttemptState]) -> list[AttemptState]:
    """The attempts that failed as the newest one did, the newest last."""
    wanted = failure_of(attempts[-1].diagnosis)
    return [*(each for each in attempts[:-1] if failure_of(each.diagnosis) == wanted), attempts[-1]]


def in_vain(attempts: Sequence[AttemptState]) -> int:
    """How often in a row the newest failure has come back without a step gained."""
    best, count = -1, 0
    for attempt in alike(attempts):
        step = last_step(attempt)
        count = 0 if step > best else count + 1
        best = max(best, step)
    return count


def tried(attempts: Sequence[AttemptState]) -> tuple[str, ...]:
    """The built-in repairs that followed a failure like the newest one, once for each time."""
    names: list[str] = []
    for before in alike(attempts)[:-1]:
        following = attempts[before.number].draft
        names += [WAITED] if following.is_empty else following.remedies
    return tuple(names)


def last_step(attempt: AttemptState) -> int:
    """The last step that the attempt came to."""
    return (attempt.ended.last_step if attempt.ended else None) or 0
