"""Disk or memory that will soon be used up, by the line through the last samples.

In: samples as `monitors.resources` takes them, one every half minute. Out: alarms that stand. A training
fills its memory while it starts and then stays there, so only a loss that goes on, and has eaten most of
what there was, counts.
"""

from collections import deque
from statistics import correlation, linear_regression

from monitors.health.types import Alarm
from monitors.rules import AlarmKind

REMEMBERED = 60
LEAST_SAMPLES = 12
LEAST_SPAN_S = 300.0
SOON_S = 1800.0
LEFT = 0.5
STEADY = 0.8


class RunningOut:
    """The last samples of what one attempt has left of `what`."""

    def __init__(self, kind: AlarmKind, what: str) -> None:
        self._kind, self._what = kind, what
        self._times: deque[float] = deque(maxlen=REMEMBERED)
        self._left: deque[int] = deque(maxlen=REMEMBERED)
        self._most = 0

    def add(self, time: float, left: int) -> Alarm | None:
        """Take in a sample, epoch seconds and bytes; return the alarm that stands."""
        self._times.append(time)
        self._left.append(left)
        self._most = max(self._most, left)
        if (
            len(self._times) < LEAST_SAMPLES
            or time - self._times[0] < LEAST_SPAN_S
            or left > LEFT * self._most
        ):
            return None
        if len(set(self._left)) == 1:
            return None
        slope, _ = linear_regression(self._times, self._left)
        if slope >= 0 or correlation(self._times, self._left) ** 2 < STEADY:
            return None
        ends_in_s = left / -slope
        if ends_in_s > SOON_S:
            return None
        text = f"{self._what} will be full in about {ends_in_s / 60:.0f} min: {left / 1e9:.1f} GB left"
        return Alarm(
            self._kind, text, data={"free_bytes": left, "bytes_per_s": slope, "ends_in_s": ends_in_s}
        )
