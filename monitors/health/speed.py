"""Steps that have become much slower than this run's own, and rows that do not come any more."""

import statistics
from collections import deque

from monitors.health.evidence import Level, Streak
from monitors.health.types import Alarm, Rule, Seen

SLOWER = 4.0
LESS_THROUGHPUT = 2.5
SLOW_ROWS = 10
LEAST_SLOW_S = 3.0
KNOWN_ROWS = 10
REMEMBERED = 50
STALL_STEPS = 30.0
STALL_GAPS = 5.0
STALL_LEAST_S = 600.0
STALL_KNOWN_ROWS = 5
AWAY_S = 600.0


class SlowSteps(Rule):
    """Each of the last steps took several times the median of those before.

    Longer answers take longer: where the throughput is known it has to fall too, else time is counted per
    token of the mean answer.
    """

    def __init__(self) -> None:
        self._time = Level(REMEMBERED)
        self._throughput = Level(REMEMBERED)
        self._streak = Streak()
        self._latest_s = 0.0

    def add(self, seen: Seen) -> None:
        seconds, throughput = seen.of.get("step_time"), seen.of.get("throughput")
        if seconds is None or not seconds > 0:
            return
        length = seen.of.get("length_mean", 1.0)
        cost = seconds / length if throughput is None and length > 0 else seconds
        slow = (
            len(self._time) >= KNOWN_ROWS and seconds >= LEAST_SLOW_S and cost >= SLOWER * self._time.median
        )
        if slow and throughput is not None and len(self._throughput) >= KNOWN_ROWS:
            slow = throughput <= self._throughput.median / LESS_THROUGHPUT
        self._streak.take(slow, seen)
        self.standing = self._streak.count >= SLOW_ROWS
        if slow:
            self._latest_s = seconds
            return
        self._time.add(cost)
        if throughput is not None and throughput > 0:
            self._throughput.add(throughput)

    def alarm(self) -> Alarm:
        text = (
            f"the last {self._streak.count} steps took more than {SLOWER:g} times as long as those before; "
            f"the latest {self._latest_s:.4g} s ({self._streak.where})"
        )
        return self._streak.alarm("slow_steps", text, step_s=self._latest_s)


class Stall:
    """Rows stop coming, measured by the run's own pace. Times are epoch seconds.

    In: how many rows there are whenever somebody looks. A silence while nobody looked does not count.
    """

    def __init__(self) -> None:
        self._gaps: deque[float] = deque(maxlen=REMEMBERED)
        self._longest_s = 0.0
        self._counts_from: float | None = None
        self._looked_at: float | None = None
        self._rows = 0

    def look(self, now: float, rows: int, step: int | None = None) -> Alarm | None:
        """Return the alarm while it stands."""
        away = self._looked_at is not None and now - self._looked_at > AWAY_S
        came, self._rows = rows - self._rows, rows
        before, self._looked_at = self._looked_at, now
        if self._counts_from is None or before is None or away or came < 0:
            self._counts_from = now
            return None
        silent_s = now - self._counts_from
        if came:
            self._gaps.append(silent_s / came)
            self._longest_s = max(self._longest_s, silent_s)
            self._counts_from = now
            return None
        if len(self._gaps) < STALL_KNOWN_ROWS:
            return None
        pace_s = statistics.median(self._gaps)
        limit_s = max(STALL_LEAST_S, STALL_STEPS * pace_s, STALL_GAPS * self._longest_s)
        if silent_s <= limit_s:
            return None
        text = (
            f"no metric row for {limit_s:.0f} s; they came every {pace_s:.3g} s, and the longest pause "
            f"before was {self._longest_s:.0f} s"
        )
        return Alarm("stall", text, step, (), {"silent_s": silent_s, "pace_s": pace_s})
