"""The words of a verification: what was checked, and what differs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from harness.results.types import Discrepancy


class NotFinishedError(Exception):
    """The folder is not a finished one; the message says what to do about it."""


@dataclass(frozen=True)
class Checked:
    """What was looked at, in numbers, and what is not as it was recorded."""

    discrepancies: tuple[Discrepancy, ...] = ()
    numbers: int = 0
    files: int = 0
    figures: int = 0
    runs: int = 0

    def __add__(self, other: Checked) -> Checked:
        return Checked(
            (*self.discrepancies, *other.discrepancies),
            self.numbers + other.numbers,
            self.files + other.files,
            self.figures + other.figures,
            self.runs + other.runs,
        )

    def below(self, folder: str) -> Checked:
        """The same, with each place named from the folder above."""
        moved = tuple(Discrepancy(f"{folder}: {item.where}", item.what) for item in self.discrepancies)
        return Checked(moved, self.numbers, self.files, self.figures, self.runs)

    @property
    def summary(self) -> str:
        """`312 numbers, 41 files, 14 figures checked: nothing differs`."""
        counts = [
            f"{count:,} {name}{'' if count == 1 else 's'}"
            for count, name in (
                (self.runs, "run"),
                (self.numbers, "number"),
                (self.files, "file"),
                (self.figures, "figure"),
            )
            if count or name != "run"
        ]
        found = len(self.discrepancies)
        verdict = f"{found:,} differ{'s' if found == 1 else ''}" if found else "nothing differs"
        return f"{', '.join(counts)} checked: {verdict}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def found(items: Iterable[tuple[str, str]]) -> tuple[Discrepancy, ...]:
    """Discrepancies from (where, what)."""
    return tuple(Discrepancy(where, what) for where, what in items)
