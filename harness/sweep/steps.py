"""How far runs have come: the newest step in the metrics of their newest attempt, read from the end of the
file.

In: result folders, and the runs' own configs for the number of steps they will take. Out: steps. A look costs
a few milliseconds however long the run, so that a display can look at many of them every few seconds.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from harness.config.edit import ConfigEditError
from harness.config.training import TrainingConfig
from harness.results.raw import number_in, parse_object
from harness.sweep.folder import SweepFolder, newest_attempt

LOOK_EVERY_S = 2.0
TAIL_BYTES = 64 << 10


@dataclass(frozen=True)
class Progress:
    """Where a run is. `total`: None where its config does not fix it."""

    step: int | None = None
    total: int | None = None


def last_step(result_dir: Path) -> int | None:
    """The newest step in the metrics of the newest attempt; None before its first."""
    newest = newest_attempt(result_dir)
    if newest is None:
        return None
    for line in reversed(_end_of(newest / "metrics.jsonl")):
        row = parse_object(line)
        step = number_in(row, "step") if row is not None else None
        if step is not None and step == step and abs(step) != float("inf"):
            return int(step)
    return None


def _end_of(path: Path) -> list[bytes]:
    """The last complete lines of a file, at most TAIL_BYTES of them."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            start = max(0, size - TAIL_BYTES)
            file.seek(start)
            lines = file.read(TAIL_BYTES).split(b"\n")
    except OSError:
        return []
    return lines[1 if start else 0 : -1]


class Steps:
    """Where the runs of one sweep are; each is looked up at most every LOOK_EVERY_S."""

    def __init__(self, folder: SweepFolder, configs_at_once: int | None = None) -> None:
        """`configs_at_once`: how many configs (some 10 ms each) are read at one moment; None for all. The
        total of a run whose config has not been read is not known yet."""
        self._folder = folder
        self._most = configs_at_once
        self._steps: dict[str, tuple[float, int | None]] = {}
        self._totals: dict[str, int | None] = {}
        self._read_at: list[float] = []

    def of(self, run: str, now: float) -> Progress:
        """Where the run is, as seen at most LOOK_EVERY_S before `now`."""
        looked = self._steps.get(run)
        if looked is None or not 0 <= now - looked[0] < LOOK_EVERY_S:
            looked = self._steps[run] = (now, last_step(self._folder.result_dir(run)))
        if run not in self._totals and self._may_read(now):
            self._totals[run] = self._total(run)
        return Progress(looked[1], self._totals.get(run))

    def _may_read(self, now: float) -> bool:
        self._read_at = [*(at for at in self._read_at if at == now), now]
        return self._most is None or len(self._read_at) <= self._most

    def _total(self, run: str) -> int | None:
        try:
            return TrainingConfig.read(self._folder.run_config(run)).total_steps
        except (ConfigEditError, OSError, ValueError):
            return None
