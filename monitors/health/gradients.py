"""Gradients that spike again and again."""

import math
from collections import deque

from monitors.health.evidence import Level, since
from monitors.health.types import Alarm, Rule, Seen

TIMES = 20.0
WARM_UP = 20
REMEMBERED = 50
REPEATED = 5
LEAST_MEDIAN = 1e-2


class GradientSpikes(Rule):
    """Several times within some rows, the norm jumps to a multiple of its median and comes back.

    A level that changes once is one jump; norms next to zero are those of steps that teach nothing, which
    real ones stand out from.
    """

    def __init__(self) -> None:
        self._level = Level(REMEMBERED)
        self._spikes: deque[tuple[int, int | None, int, float]] = deque(maxlen=REPEATED)
        self._is_high = False

    def add(self, seen: Seen) -> None:
        if not seen.gradients:
            return
        norm = next(iter(seen.gradients.values()))
        if not math.isfinite(norm):
            return
        median = self._level.median
        known = len(self._level) >= WARM_UP and median >= LEAST_MEDIAN
        is_high = known and norm >= TIMES * median
        if is_high and not self._is_high:
            self._spikes.append((seen.number, seen.step, seen.line, norm))
        self._is_high = is_high
        if norm > 0:
            self._level.add(norm)
        recent = len(self._spikes) == REPEATED and seen.number - self._spikes[0][0] < REMEMBERED
        self.standing = recent

    def alarm(self) -> Alarm:
        highest = max(norm for *_, norm in self._spikes)
        return Alarm(
            "gradient_spikes",
            f"the gradient norm jumps again and again: {REPEATED} times {since(*self._spikes[0][1:3])}, "
            f"up to {highest:.4g}, where its median is {self._level.median:.4g}",
            self._spikes[-1][1],
            tuple(line for _, _, line, _ in self._spikes),
            {"highest": highest, "median": self._level.median},
        )
