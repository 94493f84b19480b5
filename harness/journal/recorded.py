"""A folder whose journal tells everything: a run, or a sweep. Its state is the fold of the journal.

Everything that is decided or happens goes through `record`, which is durable before it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from harness.atomic_write import write_json
from harness.journal.events import Owner
from harness.journal.journal import Clock, Entry, Journal, read
from harness.journal.order import Event, Order

State = TypeVar("State")
Self = TypeVar("Self", bound="Recorded[Any]")


class Fold(Generic[State]):
    """From events to a state: a table from event class to what it changes; other events change nothing.

    A handler gets the state, the event, and its entry (for number and time). `first`: the state before all.
    """

    def __init__(self, first: State, handlers: Mapping[type[Event], Callable[..., State]]) -> None:
        self.first = first
        self._handlers = handlers

    def apply(self, state: State, entry: Entry) -> State:
        """The state after one more entry."""
        handle = self._handlers.get(type(entry.event))
        return handle(state, entry.event, entry) if handle else state

    def fold(self, entries: Iterable[Entry]) -> State:
        """The state after all entries."""
        state = self.first
        for entry in entries:
            state = self.apply(state, entry)
        return state


class Recorded(Generic[State]):
    """One folder, owned by this process until `close`. Subclasses name the journal's file, the table of its
    events, and the fold to their state."""

    FILE: str
    ORDER: Order
    FOLD: Fold[State]

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        """Own the folder's journal. `clock`: another one than the journal's own.

        Raises JournalOwnedError, JournalDamagedError.
        """
        self.dir = folder
        self.journal = Journal(folder / self.FILE, clock, self.ORDER)
        self.clock = self.journal.clock
        self.state: State = self.FOLD.fold(self.journal.entries)
        self.listeners: list[Callable[[State, Entry], object]] = []
        """Called after each entry that is recorded, with the state that it led to."""

    @classmethod
    def open(cls: type[Self], folder: Path, clock: Clock | None = None) -> Self:
        """Take over an existing folder, and enter this process as its owner, unless it is finished."""
        opened = cls(folder, clock)
        if opened.state.finished_at is None:
            opened.record(Owner.this_process(opened.clock))
        return opened

    @classmethod
    def load_state(cls, folder: Path) -> State:
        """The state of the folder, read without owning it."""
        return cls.FOLD.fold(read(folder / cls.FILE, cls.ORDER))

    def record(self, event: Event) -> Entry:
        """Append to the journal, durably, and fold the entry into `state`."""
        entry = self.journal.append(event)
        self.state = self.FOLD.apply(self.state, entry)
        self._notify(entry)
        return entry

    def tell(self, event: Event) -> None:
        """Tell the listeners of what cannot be recorded now."""
        self._notify(Entry(len(self.journal.entries) + 1, self.clock(), event))

    def _notify(self, entry: Entry) -> None:
        for listener in self.listeners:
            listener(self.state, entry)

    def write_finish_flag(self, content: Mapping[str, Any]) -> None:
        """The last file of the folder, in one atomic step."""
        write_json(self.dir / "finish.flag", content)

    def close(self) -> None:
        self.journal.close()
