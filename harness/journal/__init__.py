"""What happened in a run or a sweep, for good: typed events in an append-only file.

`events` and `model_events` have one class per kind of entry of a run (`harness.sweep.state` those of a
sweep) and say which may follow which (`order`); `journal` is the file; `recorded` is a folder with its
journal and the state folded from it.
"""

from harness.journal.events import RUN, Owner
from harness.journal.journal import (
    Clock,
    Entry,
    Journal,
    JournalDamagedError,
    JournalOwnedError,
    clock_of,
    events_of,
    first_and_last,
    has_begun,
    is_owned,
    last_owner,
    read,
)
from harness.journal.order import Event, ImpossibleEventError, Order
from harness.journal.recorded import Fold, Recorded

__all__ = [
    "RUN",
    "Clock",
    "Entry",
    "Event",
    "Fold",
    "ImpossibleEventError",
    "Journal",
    "JournalDamagedError",
    "JournalOwnedError",
    "Order",
    "Owner",
    "Recorded",
    "clock_of",
    "events_of",
    "first_and_last",
    "has_begun",
    "is_owned",
    "last_owner",
    "read",
]
