"""What the rows of one attempt leave behind: the latest values and short histories, however many they are."""

import math
from dataclasses import dataclass, field

from monitors.metrics import Row
from monitors.metrics.axis import Axis, place_text
from monitors.rules import PASS_RATE_NAME, REWARD_NAME

LONGEST_HISTORY = 400
MOST_NAMES = 5000

History = list[tuple[float, float]]


@dataclass
class Rows:
    """The rows so far. `place`: where the last one stands on the `axis`, and `total`: where the rows say that
    it ends. `step`: the place, where it counts steps. `values`: the latest of every metric, `extremes`: its
    lowest and highest finite value. Histories are (place, value) in order, of long ones the first, the best
    and the last."""

    count: int = 0
    axis: Axis = field(default_factory=Axis)
    place: float | None = None
    total: int | None = None
    values: dict[str, float] = field(default_factory=dict)
    extremes: dict[str, tuple[float, float]] = field(default_factory=dict)
    first_step_seen: bool = False
    rewards: History = field(default_factory=list)
    pass_rates: History = field(default_factory=list)

    @property
    def step(self) -> int | None:
        return int(self.place) if self.place is not None and self.axis.kind == "step" else None

    @property
    def where(self) -> str:
        """Where the last row stands, in words."""
        return place_text(self.axis.kind, self.place) if self.place is not None else "the start"

    def add(self, row: Row) -> bool:
        """Take in the next row; say whether it brought a pass rate."""
        self.count += 1
        place = self.place = self.axis.place(row)
        self._take_total(row)
        self.values.update(row.values)
        if len(self.values) > MOST_NAMES:
            self.values, self.extremes = dict(row.values), {}
        for name, value in row.values.items():
            low, high = self.extremes.get(name, (math.inf, -math.inf))
            if math.isfinite(value) and not low <= value <= high:
                self.extremes[name] = (min(low, value), max(high, value))
        reward = next((value for name, value in row.values.items() if REWARD_NAME.match(name)), None)
        rate = next((value for name, value in row.values.items() if PASS_RATE_NAME.match(name)), None)
        if reward is not None:
            _extend(self.rewards, place, reward)
        if rate is None or not math.isfinite(rate):
            return False
        _extend(self.pass_rates, place, rate)
        return True

    def _take_total(self, row: Row) -> None:
        """Note where the axis ends: the last epoch, or its last step, where a row names it."""
        if row.split:
            return
        counted = row.steps_per_epoch
        if self.axis.kind == "epoch":
            self.total = row.epochs or self.total
        elif counted and row.epoch is not None:
            self.total = row.epochs * counted if row.epochs else None
        elif self.axis.kind == "step":
            self.total = counted or self.total


def _extend(history: History, place: float, value: float) -> None:
    """Add to a history; of one that grows too long, keep the first, the best and the newer half."""
    history.append((place, value))
    if len(history) > LONGEST_HISTORY:
        best = max(range(1, LONGEST_HISTORY // 2), key=lambda index: history[index][1])
        history[1 : LONGEST_HISTORY // 2] = [history[best]]
