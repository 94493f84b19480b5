"""A policy that has gone bad: no exploration left, every token clipped, every answer cut off."""

import math

from monitors.health.evidence import Level, Progress, Streak
from monitors.health.types import Alarm, Rule, Seen
from monitors.rules import AlarmKind

ENTROPY_START_ROWS = 10
LEAST_START = 0.05
COLLAPSED = 0.02
COLLAPSED_ROWS = 20
ALL = 0.95
CLIPPED_ROWS = 10
AT_CAP_ROWS = 20
AT_CAP_FROM_START_ROWS = 100
FREE_ROWS = 5


class _Streaks(Rule):
    """Stands while enough rows one after another show it."""

    kind: AlarmKind
    rows = 1

    def __init__(self, shortened: float = 1.0) -> None:
        self._rows = max(5, round(self.rows * shortened))
        self._streak = Streak()
        self._value = 0.0

    def _take(self, shows: bool, value: float, seen: Seen) -> None:
        self._value = value
        self._streak.take(shows, seen)
        self.standing = self._streak.count >= self._rows

    def _text(self) -> str:
        raise NotImplementedError

    def alarm(self) -> Alarm:
        return self._streak.alarm(self.kind, f"{self._text()} ({self._streak.where})", value=self._value)


class EntropyCollapse(_Streaks):
    """The entropy is next to nothing, from a healthy start, and the reward is no better for it.

    A task that is being solved needs no entropy, so that alone is no alarm; nor are runs without a reward
    judged, which imitate.
    """

    kind = "entropy_collapse"
    rows = COLLAPSED_ROWS

    def __init__(self, progress: Progress, shortened: float = 1.0) -> None:
        super().__init__(shortened)
        self._progress = progress
        self._start = Level(ENTROPY_START_ROWS, every=1)

    def add(self, seen: Seen) -> None:
        entropy = seen.of.get("entropy")
        if entropy is None or not math.isfinite(entropy):
            return
        if len(self._start) < ENTROPY_START_ROWS and entropy > 0:
            self._start.add(entropy)
        start = self._start.median
        collapsed = len(self._start) >= 3 and start >= LEAST_START and 0 <= entropy <= COLLAPSED * start
        is_bad = collapsed and self._progress.start is not None and not self._progress.is_good
        self._take(is_bad, entropy, seen)

    def _text(self) -> str:
        before = f"{self._start.median:.4g}"
        return f"the entropy has fallen from {before} to {self._value:.4g} without a better reward"


class AllClipped(_Streaks):
    """Nearly every token's ratio is outside of the clip range, so nearly none is learned from."""

    kind = "all_clipped"
    rows = CLIPPED_ROWS

    def add(self, seen: Seen) -> None:
        clipped = seen.of.get("clipped")
        if clipped is not None:
            self._take(ALL <= clipped <= 1, clipped, seen)

    def _text(self) -> str:
        return f"{100 * self._value:.0f} % of the tokens are clipped"


class LengthAtCap(_Streaks):
    """Nearly every answer is cut off at the longest length, and the reward is no better for it.

    Answers that were shorter before have run away; ones that were cut off from the start may belong to a
    task with answers of one length, so they have to show no success for longer.
    """

    kind = "length_at_cap"
    rows = AT_CAP_ROWS

    def __init__(self, progress: Progress, shortened: float = 1.0) -> None:
        super().__init__(shortened)
        self._progress = progress
        self._from_start_rows = round(AT_CAP_FROM_START_ROWS * shortened)
        self._free = 0
        self._cap = 0.0

    def add(self, seen: Seen) -> None:
        share = seen.of.get("cut_off")
        share = self._guessed(seen) if share is None else share
        if share is None:
            return
        self._free += share < 0.5
        self._take(share >= ALL and not self._progress.is_good, share, seen)
        if self._free < FREE_ROWS:
            self.standing = self._streak.count >= self._from_start_rows

    def _guessed(self, seen: Seen) -> float | None:
        """Without a share: all are as long as the longest ever, once there have been shorter ones."""
        mean, longest = seen.of.get("length_mean"), seen.of.get("length_max")
        if mean is None or longest is None or longest <= 1:
            return None
        self._cap = max(self._cap, longest)
        is_at_cap = mean >= 0.999 * self._cap
        return 1.0 if is_at_cap and self._free >= FREE_ROWS else float(mean >= 0.8 * self._cap) / 2

    def _text(self) -> str:
        return f"{100 * self._value:.0f} % of the answers are cut off at the longest length"
