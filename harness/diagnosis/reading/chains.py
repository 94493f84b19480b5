"""Links exceptions in the order in which they are printed: those of a chain, and the parts of a group.

A group only carries its parts; each part is a root, unless another exception follows from the group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from harness.diagnosis.reading.faults import Draft
from harness.diagnosis.reading.traceback_lines import carries_in_a_chain


@dataclass(frozen=True)
class _Group:
    """An open group: the column of its parts, itself, and how many parts there were before it."""

    column: int
    draft: Draft | None
    parts_before: int


class Chains:
    """Exceptions of one source whose chain may go on."""

    numbers = count(1)

    def __init__(self, emit: Callable[[Draft], None]) -> None:
        self._emit = emit
        self._parts: list[list[Draft]] = [[]]  # the last one is the chain that may go on
        self._groups: list[_Group] = []

    @property
    def in_group(self) -> bool:
        return bool(self._groups)

    @property
    def groups(self) -> list[str]:
        """The types of the groups that are open, outermost first."""
        return [group.draft.type for group in self._groups if group.draft is not None]

    def add(self, draft: Draft) -> None:
        """The next exception of the chain."""
        self._parts[-1].append(draft)

    def link(self) -> None:
        """The next exception follows from those before: in a group from those of its part."""
        if not self._groups:
            self._parts = [[draft for part in self._parts for draft in part]]

    def open_group(self, column: int, group: Draft | None) -> None:
        """Parts begin that stand in this column."""
        self._end_part()
        self._groups.append(_Group(column, group, len(self._parts)))

    def is_within(self, column: int) -> bool:
        """True if a group is open whose parts stand further in than this column."""
        return bool(self._groups) and self._groups[-1].column > column

    def leave(self, column: int) -> None:
        """A part ends, and with it the groups whose parts stand further in than this column."""
        self._end_part()
        while self.is_within(column):
            group = self._groups.pop()
            if group.draft is not None and len(self._parts) == group.parts_before:
                self._parts[-1:] = [[group.draft], []]

    def flush(self) -> None:
        """No link follows: hand all of them out, each with the number of its chain, its depth and how that
        ended; what only carries stands in those before it too."""
        self.leave(-1)
        for part in filter(None, self._parts):
            number = next(self.numbers) if len(part) > 1 else 0
            for depth, draft in enumerate(part):
                draft.chain, draft.depth, draft.end_of_chain = number, depth, part[-1]
                draft.uncaught, draft.handled = draft.uncaught or part[-1].uncaught, part[-1].handled
                if depth and carries_in_a_chain(draft.type):
                    for earlier in part[:depth]:
                        earlier.wrapped_in.append(draft.type)
            for draft in part:
                self._emit(draft)
        self._parts = [[]]

    def _end_part(self) -> None:
        if self._parts[-1]:
            self._parts.append([])
