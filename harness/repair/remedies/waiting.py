"""Starting again without a change, where the cause is known to pass."""

from harness.repair.remedies.types import Repair, Situation

LONGEST_WAIT_S = 900.0


def wait_and_retry(now: Situation) -> Repair | None:
    """After a wait that doubles each time, up to a quarter of an hour."""
    if not now.diagnosis.transient:
        return None
    before = now.tried.count("wait_and_retry")
    return Repair(wait_s=min(LONGEST_WAIT_S, now.diagnosis.wait_s * 2**before))


def resume_from_checkpoint(now: Situation) -> Repair | None:
    """The same: a launch goes on from the last checkpoint by itself."""
    return wait_and_retry(now)
