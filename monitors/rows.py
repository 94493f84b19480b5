"""What the rows of one attempt leave behind: the latest values and short histories, however many they are."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from monitors.metrics import Row
from monitors.rules import PASS_RATE_NAME, REWARD_NAME

LONGEST_HISTORY = 400
MOST_NAMES = 5000

History = list[tuple[int, float]]


@dataclass
class Rows:
    """The rows so far. `values`: the latest of every metric; histories are (step, value) in
    order, of long ones the first, the best and the last."""

    count: int = 0
    step: int | None = None
    values: dict[str, float] = field(default_factory=dict)
    first_step_seen: bool = False
    rewards: History = field(default_factory=list)
    pass_rates: History = field(default_factory=list)

    def add(self, row: Row) -> bool:
        """Take in a row that has a step; say whether it brought a pass rate."""
        self.count += 1
        self.step = row.step
        self.values.update(row.values)
        if len(self.values) > MOST_NAMES:
            self.values = dict(row.values)
        reward = next((value for name, value in row.values.items() if REWARD_NAME.match(name)), None)
        rate = next((value for name, value in row.values.items() if PASS_RATE_NAME.match(name)), None)
        if reward is not None:
            _extend(self.rewards, row.step or 0, reward)
        if rate is None or not math.isfinite(rate):
            return False
        _extend(self.pass_rates, row.step or 0, rate)
        return True


def _extend(history: History, step: int, value: float) -> None:
    """Add to a history; of one that grows too long, keep the first, the best and the newer half."""
    history.append((step, value))
    if len(history) > LONGEST_HISTORY:
        best = max(range(1, LONGEST_HISTORY // 2), key=lambda index: history[index][1])
        history[1 : LONGEST_HISTORY // 2] = [history[best]]
