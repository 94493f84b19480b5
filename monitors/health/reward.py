"""Rewards that never move, and rewards that fall far below what they were."""

import math

from monitors.health.evidence import Progress, Streak, since
from monitors.health.types import Alarm, Rule, Seen

STUCK_ROWS = 100
STUCK_AT_END = 10
WORTHLESS_SHARE = 0.9
WINDOW = 20
SHORTEST_WINDOW = 5
STAYS_LOW = 30
DROP = 0.6
DEVIATIONS = 2.0


class RewardStuck(Rule):
    """The reward is the same to the last digit for very many rows.

    From the first row on, zero, less, and fractions count, since 1 or more may be the best there is; later
    only zero and less, since a run may settle. A success that a validation or the row itself shows meanwhile
    clears it.
    """

    def __init__(self) -> None:
        self._streak = Streak()
        self._value: float | None = None
        self._rows = 0

    @property
    def _is_from_start(self) -> bool:
        return self._streak.count == self._rows

    def add(self, seen: Seen) -> None:
        succeeds = seen.of.get("success", 0.0) > 0 or (
            self._rows > 0 and any(value > 0 for name, value in seen.scores.items() if "loss" not in name)
        )
        reward = seen.of.get("reward")
        if reward is not None:
            self._rows += 1
            differs = seen.of.get("reward_max", reward) != seen.of.get("reward_min", reward)
            if differs or reward != self._value:
                self._streak.clear()
                self._value = reward
            if not differs and math.isfinite(reward) and reward < 1:
                self._streak.extend(seen)
        if succeeds:
            self._streak.clear()
        self.standing = self._is_stuck(STUCK_ROWS)

    def _is_stuck(self, rows: int) -> bool:
        return self._streak.count >= rows and (self._is_from_start or (self._value or 0.0) <= 0)

    def alarm(self) -> Alarm:
        count, value = self._streak.count, self._value or 0.0
        begin = since(self._streak.first_step, self._streak.lines[0])
        begin = "from the first one on" if self._is_from_start else begin
        text = f"the reward is exactly {value:g} in all {count} rows {begin}"
        worthless = value == 0 and count >= WORTHLESS_SHARE * self._rows
        return self._streak.alarm("reward_stuck", text, worthless=worthless, reward=value)

    def at_end(self) -> Alarm | None:
        is_most = self._is_from_start or self._streak.count >= max(STUCK_ROWS / 2, self._rows / 2)
        return self.alarm() if is_most and self._is_stuck(STUCK_AT_END) else None


class RewardCollapse(Rule):
    """The reward was at a level for a while and has been far below it for longer.

    Far: by `DROP` of the way down to where it began (or to zero), and by `DEVIATIONS` standard deviations of
    single rows. `window`: rows that make a level.
    """

    def __init__(self, progress: Progress, window: int) -> None:
        self._progress = progress
        self._stays = STAYS_LOW * window // WINDOW
        self._best: tuple[float, float] | None = None
        self._latest = 0.0
        self._low = Streak()

    def add(self, seen: Seen) -> None:
        reward = seen.of.get("reward")
        start, recent = self._progress.start, self._progress.recent
        if reward is None or not math.isfinite(reward) or start is None:
            return
        self._latest = mean = recent.mean()
        if self._best is None or mean > self._best[0]:
            self._best = (mean, recent.deviation())
        best, noise = self._best
        floor = min(0.0, start)
        drop = best - mean
        is_low = drop > 0 and drop >= DROP * max(best - floor, abs(best))
        self._low.take(is_low and drop >= DEVIATIONS * max(noise, recent.deviation()), seen)
        self.standing = self._low.count >= self._stays

    def alarm(self) -> Alarm:
        assert self._best is not None  # it stands
        best, where = self._best[0], self._low.where
        text = f"the reward has fallen from {best:.4g} to {self._latest:.4g} and stays there ({where})"
        return self._low.alarm("reward_collapse", text, best=best, reward=self._latest)
