"""Which event may follow which: each class of events says it of itself, in marks.

A journal is at a set of *marks*, such as `running` or `acting:launch` (a name, and perhaps what of). A class
says which marks must stand before its events, which must not, which they remove and which they leave. What
that does not allow is an impossible journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, dataclass_transform

from harness.codec import MisfitError, decode

Marks = frozenset[str]
BEGUN, FINISHED = "begun", "finished"


@dataclass(frozen=True)
class Step:
    """Marks, separated by blanks; a name alone means each mark of that name, `{event.…}` a field's value."""

    needs: str = ""
    bars: str = ""
    clears: str = ""
    sets: str = ""

    def of(self, event: Event) -> Step:
        """The step of just this event."""
        return Step(*(each.format(event=event) if "{" in each else each for each in vars(self).values()))


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Event:
    """One kind of entry; a subclass becomes a frozen dataclass, names its `kind` in the journal, and adds to
    the step (`row`) of its parent. A field that it does not have is an error."""

    kind: ClassVar[str]
    row: ClassVar[Step] = Step()
    __pydantic_config__: ClassVar = {"extra": "forbid"}

    def __init_subclass__(cls, kind: str = "", **marks: str) -> None:
        super().__init_subclass__()
        cls.row = Step(**{name: f"{had} {marks.get(name, '')}" for name, had in vars(cls.row).items()})
        if kind:
            cls.kind = kind
            dataclass(frozen=True)(cls)

    def now(self) -> Step:
        """The step that this event takes."""
        return self.row.of(self)


class ImpossibleEventError(ValueError):
    """An event that cannot come where it stands."""


class Order:
    """One kind of journal: the classes of its events. The event of class `first` begins a journal, nothing
    follows one that leaves the mark `finished`. `others`: steps that are not those of the class itself."""

    def __init__(
        self,
        first: type[Event],
        kinds: Iterable[type[Event]],
        others: Mapping[type[Event], Step] | None = None,
    ) -> None:
        self.first = first
        self.rows = {kind: (others or {}).get(kind, kind.row) for kind in kinds}
        self._others = others or {}
        self._classes = {kind.kind: kind for kind in self.rows}

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
        step = self._others.get(type(event)) or event.now()
        missing = [mark for mark in step.needs.split() if not _stands(mark, marks)]
        barred = [mark for mark in (*step.bars.split(), FINISHED) if _stands(mark, marks)]
        if missing or barred:
            there = [f"without `{mark}`" for mark in missing] + [f"after `{mark}`" for mark in barred]
            raise ImpossibleEventError(f"`{event.kind}` cannot come {' and '.join(there)}")
        gone = set(step.clears.split())
        left = (mark for mark in marks if mark not in gone and mark.partition(":")[0] not in gone)
        return frozenset({*left, *step.sets.split()})


def _stands(word: str, marks: Marks) -> bool:
    """True if this very mark stands, or where only a name is given, one of that name."""
    return word in marks or (":" not in word and any(mark.startswith(f"{word}:") for mark in marks))
