"""The health of an attempt that runs: its course, its pace, and what is left of disk and memory.

In: rows and errors as a watch comes by them, looks at the clock, the samples in resources.jsonl. Out: alarms
to tell, each once until it has passed, and a few times at most.
"""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from monitors.health.course import Course
from monitors.health.resources import RunningOut
from monitors.health.speed import Stall
from monitors.health.types import Alarm
from monitors.logs import LogReader
from monitors.metrics import Row
from monitors.rules import AlarmKind

MOST_TOLD = 3
RESOURCES_EVERY_S = 60.0
SAMPLED = ("time", "disk_free_bytes", "mem_available_bytes")


class LiveHealth:
    """`file`: what rows are numbered in; `resources`: the file of samples."""

    def __init__(self, file: str, resources: Path) -> None:
        self._file = file
        self._samples = LogReader(resources)
        self._disk = RunningOut("disk_fills", "disk")
        self._memory = RunningOut("memory_fills", "memory")
        self._stall = Stall()
        self._next_samples_at = 0.0
        self._standing: set[AlarmKind] = set()
        self._of_samples: list[Alarm] = []
        self._times_told: Counter[AlarmKind] = Counter()
        self._course = Course(file)

    def start_again(self, file: str = "") -> None:
        """The rows begin anew, in this file where one is named."""
        self._course = Course(file or self._file)

    def row(self, row: Row, line: int) -> list[Alarm]:
        """Take in the next row; return the alarms to tell."""
        raised = self._course.add(row, line)
        return self._to_tell(raised) if raised else raised

    def error(self) -> None:
        """Take in that the log reported an error."""
        self._course.error()

    def look(self, now: float, rows: int, step: int | None) -> list[Alarm]:
        """Look at the clock and at new samples; return the alarms to tell. Times are epoch seconds."""
        if now >= self._next_samples_at:
            self._next_samples_at = now + RESOURCES_EVERY_S
            self._read_samples()
        stall = self._stall.look(now, rows, step)
        standing = [*self._of_samples, *([stall] if stall else [])]
        before, self._standing = self._standing, {alarm.kind for alarm in standing}
        return self._to_tell(alarm for alarm in standing if alarm.kind not in before)

    def fatal(self) -> tuple[str, ...]:
        """Say why the run cannot come to a good end, as far as its rows show."""
        return tuple(alarm.text for alarm in self._course.alarms() if alarm.fatal)

    def _to_tell(self, raised: Iterable[Alarm]) -> list[Alarm]:
        told = []
        for alarm in raised:
            self._times_told[alarm.kind] += 1
            if self._times_told[alarm.kind] <= MOST_TOLD:
                told.append(alarm)
        return told

    def _read_samples(self) -> None:
        for line in self._samples.read():
            try:
                record = json.loads(line.text)
                time, disk, memory = (record[name] for name in SAMPLED)
            except (ValueError, KeyError, TypeError):
                continue  # torn by a crash
            alarms = self._disk.add(time, disk), self._memory.add(time, memory)
            self._of_samples = [alarm for alarm in alarms if alarm is not None]
