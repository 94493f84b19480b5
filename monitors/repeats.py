"""Two different values that an attempt gives for one metric at one place: the later one replaces the earlier.

Rows count that name the same step and epoch. A validation is measured once at each place, so every second
value of one is told. What is trained on may be printed often per step, or again after a restart: of it only
the last place counts, at the end, and only if no other place has two. A run that begins anew at its first
place, as the folds of a cross validation do, the batches of a test, and epochs that are no whole ones, which
are rounded, repeat nothing.
"""

import math
from collections.abc import Iterator

from monitors.metrics import Row
from monitors.metrics.axis import AxisKind, place_text, whole
from monitors.metrics.names import is_validation

MOST_TOLD = 5
MOST_REMEMBERED = 1000
"""Values of validations: the newest."""

Place = tuple[int | None, float | None]
"""The step and the epoch that a row names."""
Printed = tuple[float, int]
"""A value and its line."""


class Repeats:
    """What was printed so far: of validations at every place, of the training at the last."""

    def __init__(self) -> None:
        self._told = 0
        self._begin("row", 0.0)

    def _begin(self, kind: AxisKind, at: float) -> None:
        self._kind, self._first, self._highest = kind, at, at
        self._place: Place = (None, None)
        self._validated: dict[tuple[str, Place], Printed] = {}
        self._trained: dict[str, Printed] = {}
        self._pairs: dict[str, tuple[Printed, Printed]] = {}
        self._repeated: dict[str, int] = {}

    def take(self, row: Row, kind: AxisKind, at: float, line: int) -> Iterator[str]:
        """Take in the next row, which stands `at` a place of the axis and has the full names of its values;
        what it shows, in words."""
        if kind != self._kind or at <= self._first < self._highest:
            self._begin(kind, at)
        self._highest = max(self._highest, at)
        place = (row.step, row.epoch)
        is_rounded = kind == "epoch" and at != whole(at)
        if kind == "row" or place == (None, None) or is_rounded or (row.split and row.steps_per_epoch):
            return
        if place != self._place:
            self._place, self._trained, self._pairs = place, {}, {}
        trained = {name: (value, line) for name, value in row.values.items() if not is_validation(name)}
        self._take_trained(trained)
        for name, value in row.values.items():
            if name in trained:
                continue
            after = (value, line)
            before = self._validated.get((name, place), after)
            self._validated[name, place] = after
            if len(self._validated) > MOST_REMEMBERED:
                del self._validated[next(iter(self._validated))]
            if _differ(before, after):
                yield from self._tell(name, at, before, after)

    def _take_trained(self, printed: dict[str, Printed]) -> None:
        if self._trained and printed.keys() <= self._trained.keys():
            for name, after in printed.items():
                if _differ(before := self._trained[name], after):
                    self._repeated[name] = self._repeated.get(name, 0) + (name not in self._pairs)
                    self._pairs[name] = (before, after)
        self._trained |= printed

    def end(self) -> Iterator[str]:
        """What the rows show, in words, now that there will be no more."""
        for name, pair in self._pairs.items() if self._kind == "step" else ():
            if self._repeated[name] == 1 and self._highest > self._first:
                yield from self._tell(name, self._highest, *pair)

    def _tell(self, name: str, at: float, before: Printed, after: Printed) -> Iterator[str]:
        self._told += 1
        if self._told <= MOST_TOLD:
            (old, line), (new, later) = before, after
            first = f"{name} at {place_text(self._kind, at)} was first {old:g} (line {line})"
            yield f"{first}, then {new:g} (line {later}), which counts"


def _differ(one: Printed, other: Printed) -> bool:
    return one[0] != other[0] and not (math.isnan(one[0]) and math.isnan(other[0]))
