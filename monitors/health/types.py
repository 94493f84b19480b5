"""The words of this room: what an alarm says, what a rule sees of a row, and what every rule must do."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from monitors.rules import AlarmKind

FAMILIES: Mapping[AlarmKind, str] = {
    "nan": "numerics_nan",
    "nan_gradients": "numerics_nan",
    "divergence": "numerics_nan",
    "stall": "hang_no_output",
    "disk_fills": "disk_full",
    "memory_fills": "host_oom",
}


@dataclass(frozen=True)
class Alarm:
    """Something that a healthy run does not show.

    `family`: as diagnosis calls it. `fatal`: the run surely cannot come to a good end. `lines`: numbers of
    lines whose rows show it, the first and the last ones, and at the end that of the row before. `data`: the
    numbers behind `text`. `worthless`: a run that ends like this has brought nothing, whatever its exit
    status. `passed`: it was over before the last row.
    """

    kind: AlarmKind
    text: str
    step: int | None = None
    lines: tuple[int, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    fatal: bool = False
    worthless: bool = False
    passed: bool = False

    @property
    def family(self) -> str:
        return FAMILIES.get(self.kind, "silent_bad_metrics")


class Seen(NamedTuple):
    """A row as rules see it. `number`: its place in the run, from 1. `of`: the value of each known meaning
    (`names`); by name, `losses`, `gradients`, `scores` of a validation, and what is `vital`, which must be a
    number."""

    step: int | None
    line: int
    number: int
    of: Mapping[str, float]
    losses: Mapping[str, float]
    gradients: Mapping[str, float]
    scores: Mapping[str, float]
    vital: Mapping[str, float]


class Rule:
    """One kind of trouble. `standing`: whether the rows so far show it."""

    standing = False

    def add(self, seen: Seen) -> None:
        """Take in the next row and bring `standing` up to date."""
        raise NotImplementedError

    def alarm(self) -> Alarm:
        """Describe it as it stands now; asked only while it stands."""
        raise NotImplementedError

    def at_end(self) -> Alarm | None:
        """Judge a run that is over: nothing that comes later can make it good."""
        return self.alarm() if self.standing else None
