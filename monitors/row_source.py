"""Rows from other files than the log: what a watch asks for where the log itself holds none."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from monitors.metrics import Row


@dataclass(frozen=True)
class NewRows:
    """What a look has brought. `restarts`: the rows so far no longer count. `rows`: the file, relative to the
    attempt's folder, and the line of each, from 1."""

    restarts: bool
    rows: list[tuple[str, int, Row]]


class RowSource(Protocol):
    """Files that a training writes rows into. `is_named`: the plan names them, so rows of the log do not
    count."""

    is_named: bool
    next_look: float
    """When to look again, in epoch seconds."""

    def look(self, final: bool = False) -> NewRows | None: ...

    def paths(self) -> list[Path]:
        """The files that rows come from."""
        ...
