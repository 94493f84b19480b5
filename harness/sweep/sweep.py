"""A sweep on disk: its folder, its journal, and its state (the fold of the journal).

One process owns a sweep at a time, as with an experiment: whoever holds the lock on `sweep.jsonl`. What is
decided goes through `record`, which is durable before it returns.
"""

from pathlib import Path

from harness.journal import Clock, Recorded
from harness.sweep.events import SWEEP
from harness.sweep.folder import SweepFolder
from harness.sweep.plan import SweepPlan
from harness.sweep.state import FOLD, SweepState
from monitors.clock import steady_time


class Sweep(Recorded[SweepState]):
    """One sweep's folder, owned by this process until `close`."""

    FILE, ORDER, FOLD = "sweep.jsonl", SWEEP, FOLD

    def __init__(self, folder: Path, clock: Clock = steady_time) -> None:
        """Own the folder's journal. Raises JournalOwnedError, JournalDamagedError."""
        super().__init__(folder, clock)
        self.folder = SweepFolder(folder)

    @property
    def plan(self) -> SweepPlan:
        """The plan as it was fixed before the first run."""
        assert self.state.plan is not None
        return self.state.plan


def load_state(folder: Path) -> SweepState:
    """The state of the sweep in this folder, read without owning it."""
    return Sweep.load_state(folder)
