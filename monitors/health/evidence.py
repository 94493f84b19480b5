"""What rules count with: rows in a row that show something, and the level that a metric used to have."""

import math
import statistics
from collections import deque
from typing import Any

from monitors.health.types import Alarm, Seen
from monitors.rules import AlarmKind

FIRST_LINES = 3
LAST_LINES = 2


class Streak:
    """Rows one after another that show something: how many, since when, and in which lines."""

    def __init__(self) -> None:
        self._before: int | None = None
        self.clear()

    def clear(self) -> None:
        """The last row did not show it."""
        self.count = 0
        self.first_step: int | None = None
        self.step: int | None = None
        self._first: list[int] = []
        self._last: deque[int] = deque(maxlen=LAST_LINES)

    def extend(self, seen: Seen) -> None:
        """The last row shows it too."""
        if not self.count:
            self.first_step = seen.step
        self.count += 1
        self.step = seen.step
        if len(self._first) < FIRST_LINES:
            self._first.append(seen.line)
        else:
            self._last.append(seen.line)

    def take(self, shows: bool, seen: Seen) -> None:
        """Extend or clear."""
        if shows:
            self.extend(seen)
            return
        self._before = seen.line
        if self.count:
            self.clear()

    @property
    def lines(self) -> tuple[int, ...]:
        """The first and the last lines, then the one before them all."""
        return (*self._first, *self._last, *([] if self._before is None else [self._before]))

    @property
    def where(self) -> str:
        """`at steps 3 to 9`, or nothing where steps are not known."""
        if self.step is None:
            return f"in {self.count} rows"
        return f"at step {self.step}" if self.count == 1 else f"at steps {self.first_step} to {self.step}"

    def alarm(
        self, kind: AlarmKind, text: str, fatal: bool = False, worthless: bool = False, **data: Any
    ) -> Alarm:
        """An alarm with these rows as its evidence."""
        data["rows"] = self.count
        return Alarm(kind, text, self.step, self.lines, data, fatal, worthless)


def since(step: int | None, line: int) -> str:
    """`since step 3`, or `since line 40` of the log where steps are not known."""
    return f"since line {line}" if step is None else f"since step {step}"


class Level:
    """The median of the last values that were taken for normal; worked out anew now and then only."""

    def __init__(self, length: int, every: int = 10) -> None:
        self._values: deque[float] = deque(maxlen=length)
        self._every = every
        self._age = 0
        self._median = math.nan

    def __len__(self) -> int:
        return len(self._values)

    def add(self, value: float) -> None:
        self._values.append(value)
        self._age += 1

    @property
    def median(self) -> float:
        """NaN while there are no values."""
        if self._values and (self._age >= self._every or math.isnan(self._median)):
            self._median = statistics.median(self._values)
            self._age = 0
        return self._median


class Window:
    """Mean and standard deviation of the last values."""

    def __init__(self, length: int) -> None:
        self._values: deque[float] = deque(maxlen=length)

    def add(self, value: float) -> None:
        self._values.append(value)

    @property
    def is_full(self) -> bool:
        return len(self._values) == self._values.maxlen

    def mean(self) -> float:
        return sum(self._values) / len(self._values)

    def deviation(self) -> float:
        count = len(self._values)
        return math.dist(self._values, [self.mean()] * count) / math.sqrt(count)


class Progress:
    """What rewards a run had and has. `window`: rows that make a level; `recent`: the last of them. `start`,
    `noise`: mean and deviation of the first ones, None and 0 where there are too few."""

    def __init__(self, window: int) -> None:
        self.recent = Window(window)
        self.start: float | None = None
        self.noise = 0.0
        self._highest = -math.inf

    def add(self, seen: Seen) -> None:
        reward = seen.of.get("reward")
        if reward is None or not math.isfinite(reward):
            return
        self._highest = max(self._highest, seen.of.get("reward_max", reward))
        self.recent.add(reward)
        if self.start is None and self.recent.is_full:
            self.start, self.noise = self.recent.mean(), self.recent.deviation()

    @property
    def is_good(self) -> bool:
        """True if the reward is clearly above its start, or as high as rewards get here."""
        if self.start is None:
            return False
        recent = self.recent.mean()
        is_solved = recent > 0 and recent >= 0.9 * self._highest
        return is_solved or recent > self.start + max(self.noise, 0.05 * abs(self.start))
