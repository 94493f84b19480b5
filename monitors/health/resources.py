"""Disk or memory that will soon be used up, by the line through the last samples.

In: samples as `monitors.resources` takes them, one every half minute. Out: alarms that stand. A training
fills its memory while it starts and then stays there, so only a loss that goes on, and has eaten most of
what there was, counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from monitors.health.types import Alarm
from monitors.rules import AlarmKind

REMEMBERED = 60
LEAST_SAMPLES = 12
LEAST_SPAN_S = 300.0
SOON_S = 1800.0
LEFT = 0.5
STEADY = 0.8


@dataclass(frozen=True)
class Free:
    """What one sample says: epoch seconds, bytes."""

    time: float
    disk_bytes: int
    memory_bytes: int


class RunningOut:
    """The last samples of one attempt."""

    def __init__(self) -> None:
        self._samples: deque[Free] = deque(maxlen=REMEMBERED)
        self._most_disk = self._most_memory = 0

    def add(self, sample: Free) -> list[Alarm]:
        """Take in a sample; return the alarms that stand."""
        self._samples.append(sample)
        self._most_disk = max(self._most_disk, sample.disk_bytes)
        self._most_memory = max(self._most_memory, sample.memory_bytes)
        disk = self._judge("disk_fills", "disk", lambda free: free.disk_bytes, self._most_disk)
        memory = self._judge("memory_fills", "memory", lambda free: free.memory_bytes, self._most_memory)
        return [alarm for alarm in (disk, memory) if alarm is not None]

    def _judge(self, kind: AlarmKind, what: str, free: Callable[[Free], int], most: int) -> Alarm | None:
        times = [sample.time for sample in self._samples]
        if len(times) < LEAST_SAMPLES or times[-1] - times[0] < LEAST_SPAN_S:
            return None
        left = [free(sample) for sample in self._samples]
        slope, steadiness = line_through(times, left)
        if slope >= 0 or steadiness < STEADY or left[-1] > LEFT * most:
            return None
        ends_in_s = left[-1] / -slope
        if ends_in_s > SOON_S:
            return None
        text = f"{what} will be full in about {ends_in_s / 60:.0f} min: {left[-1] / 1e9:.1f} GB left"
        data = {"free_bytes": left[-1], "bytes_per_s": slope, "ends_in_s": ends_in_s}
        return Alarm(kind, text, data=data)


def line_through(times: list[float], values: list[int]) -> tuple[float, float]:
    """Return the slope of the line through the points by least squares, and how much of their variance it
    explains (0 to 1)."""
    count = len(times)
    middle, mean = sum(times) / count, sum(values) / count
    xx = sum((at - middle) ** 2 for at in times)
    yy = sum((value - mean) ** 2 for value in values)
    xy = sum((at - middle) * (value - mean) for at, value in zip(times, values, strict=True))
    if not xx or not yy:
        return 0.0, 0.0
    return xy / xx, xy * xy / (xx * yy)
