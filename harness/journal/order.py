"""Which event may follow which, as one table per journal.

A journal is at a set of *marks*, such as `running` or `acting:launch` (a name, and perhaps what of). A row of
the table says of one kind of event which marks must stand before it, which must not, which it removes and
which it leaves. What no row allows is an impossible journal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from typing_extensions import dataclass_transform

from harness.journal.codec import MisfitError, decode

Marks = frozenset[str]
BEGUN, FINISHED = "begun", "finished"


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Event:
    """One kind of entry; a subclass becomes a frozen dataclass and names its `kind` in the journal."""

    kind: ClassVar[str]

    def __init_subclass__(cls, kind: str = "", **others: Any) -> None:
        super().__init_subclass__(**others)
        if kind:
            cls.kind = kind
            dataclass(frozen=True)(cls)


@dataclass(frozen=True)
class Step:
    """A row: marks, separated by blanks; a name alone means each mark of that name."""

    needs: str = ""
    bars: str = ""
    clears: str = ""
    sets: str = ""


Row = Step | Callable[[Any], Step]


class ImpossibleEventError(ValueError):
    """An event that cannot come where it stands."""


class Order:
    """The table of one kind of journal: the classes of its events, each with its row. The event of class
    `first` begins a journal, and nothing follows one that leaves the mark `finished`."""

    def __init__(self, first: type[Event], rows: Mapping[type[Event], Row]) -> None:
        self.first = first
        self.rows = rows
        self._classes = {event.kind: event for event in rows}

    def decode(self, kind: str, data: Mapping[str, Any]) -> Event:
        """The event that an entry holds. Raises MisfitError."""
        if kind not in self._classes:
            raise MisfitError(f"{kind!r} is no kind of entry")
        return decode(self._classes[kind], data)

    def after(self, marks: Marks, event: Event) -> Marks:
        """The marks after one more event. Raises ImpossibleEventError."""
        if (BEGUN in marks) == isinstance(event, self.first):
            where = "come twice" if marks else "begin a journal"
            raise ImpossibleEventError(f"`{event.kind}` cannot {where}")
        row = self.rows[type(event)]
        step = row if isinstance(row, Step) else row(event)
        missing = [mark for mark in step.needs.split() if not _stands(mark, marks)]
        barred = [mark for mark in (*step.bars.split(), FINISHED) if _stands(mark, marks)]
        if missing or barred:
            there = [f"without `{mark}`" for mark in missing] + [f"after `{mark}`" for mark in barred]
            raise ImpossibleEventError(f"`{event.kind}` cannot come {' and '.join(there)}")
        gone = set(step.clears.split())
        left = (mark for mark in marks if mark not in gone and mark.partition(":")[0] not in gone)
        return frozenset({*left, *step.sets.split()}) if gone or step.sets else marks


def _stands(word: str, marks: Marks) -> bool:
    """True if this very mark stands, or where only a name is given, one of that name."""
    return word in marks or (":" not in word and any(mark.startswith(f"{word}:") for mark in marks))
