"""A sweep on disk: its folder, its journal, and its state (the fold of the journal).

One process owns a sweep at a time, as with an experiment: whoever holds the lock on `sweep.jsonl`. What is
decided goes through `record`, which is durable before it returns.
"""

from pathlib import Path
from typing import Any

from harness import journal
from harness.atomic_write import write_json
from harness.experiment import Clock
from harness.journal import Entry, Journal
from harness.sweep.folder import SweepFolder
from harness.sweep.plan import SweepPlan
from harness.sweep.state import SweepState, apply, fold
from monitors.clock import steady_time


class Sweep:
    """One sweep's folder, owned by this process until `close`."""

    def __init__(self, folder: Path, clock: Clock = steady_time) -> None:
        """Own the folder's journal. Raises JournalOwnedError, JournalDamagedError."""
        self.folder = SweepFolder(folder)
        self.clock = clock
        self.journal = Journal(self.folder.journal, clock)
        self.state: SweepState = fold(self.journal.entries)

    @classmethod
    def open(cls, folder: Path, clock: Clock = steady_time) -> "Sweep":
        """Take over an existing sweep, and say in the journal who did, unless it is finished."""
        sweep = cls(folder, clock)
        if sweep.state.finished_at is None:
            sweep.record("owner", **journal.owner_data())
        return sweep

    @property
    def dir(self) -> Path:
        return self.folder.dir

    @property
    def plan(self) -> SweepPlan:
        """The plan as it was fixed before the first run."""
        assert self.state.plan is not None
        return self.state.plan

    def record(self, kind: str, **data: Any) -> Entry:
        """Append to the journal, durably, and fold the entry into `state`."""
        entry = self.journal.append(kind, **data)
        self.state = apply(self.state, self.journal.entries[-1])
        return entry

    def write_finish_flag(self, content: dict[str, Any]) -> None:
        """The last file of a sweep, in one atomic step."""
        write_json(self.folder.finish_flag, content)

    def close(self) -> None:
        self.journal.close()


def load_state(folder: Path) -> SweepState:
    """The state of the sweep in this folder, read without owning it."""
    return fold(journal.read(SweepFolder(folder).journal))
