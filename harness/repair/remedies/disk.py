"""Room on a disk: fewer checkpoints from now on, and old ones of our own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.repair.remedies.types import Repair, Situation

if TYPE_CHECKING:
    from harness.config.edit import Scalar

KEPT = 2


def keep_fewer_checkpoints(now: Situation) -> Repair | None:
    """The last two checkpoints; what is learned and reported stays."""
    edits: dict[str, Scalar] = {}
    for setting in now.settings.of("kept_checkpoints"):
        if setting.value is None or (
            setting.whole is not None and (setting.whole > KEPT or setting.whole < 1)
        ):
            edits[setting.key] = KEPT
    return Repair.of(edits)


def free_own_checkpoints(now: Situation) -> Repair | None:
    """Only where earlier attempts left some that a later one has replaced."""
    return Repair() if now.ask.superseded_bytes() > 0 else None


def free_leftovers(now: Situation) -> Repair | None:
    """Only where processes of our own earlier attempts still run."""
    return Repair() if now.ask.leftovers() > 0 else None
