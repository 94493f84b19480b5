"""Values that jump up by orders of magnitude and stay there: the loss (divergence) and the KL divergence."""

import math
import re
from collections import deque

from monitors.health.evidence import Level, Streak
from monitors.health.types import Alarm, Rule, Seen
from monitors.rules import AlarmKind

LAG = 20
STAYS = 5
BEFORE = 3
BACK = 10.0
ABSURD = 1e12  # no loss of a working training, whatever was before
LOSS_FACTOR, LOSS_FLOOR = 100.0, 100.0
VALUE_FACTOR = 1e6  # a value function's loss is a squared return: it grows with the success of a run
KL_LIMITS = (("kl", 30.0, 10.0), ("update_kl", 30.0, 1.0))
"""Meaning, factor and floor."""
WORTHLESS_FACTOR = 1e6
MOST_METRICS = 8
START_ROWS = 10
LEAST_START = 0.1
WORSE, WORSE_ROWS = 3.0, 20
ERROR_NAME = re.compile(r"(?:train[/_])?(?:lm_|ce_)?loss$", re.IGNORECASE)
VALUE_LOSS = re.compile(r"(?:^|[/_])(?:vf|value|critic)", re.IGNORECASE)


class Explosion:
    """One metric's height against the highest it was `LAG` rows ago and before, which is its reference."""

    def __init__(self, factor: float, floor: float) -> None:
        self._factor, self._floor = factor, floor
        self._recent: deque[float] = deque(maxlen=LAG)
        self._older_peak = 0.0
        self._older = False
        self.streak = Streak()
        self.value = 0.0

    @property
    def reference(self) -> float:
        return self._older_peak if self._older else max(self._recent, default=0.0)

    @property
    def times(self) -> float:
        """How many times the reference the latest value is."""
        return self.value / max(self.reference, self._floor / self._factor)

    @property
    def has_exploded(self) -> bool:
        return self.streak.count >= STAYS

    def add(self, value: float, seen: Seen) -> None:
        """Take in a value; one that is not finite is another rule's business."""
        if not math.isfinite(value):
            return
        self.value = height = abs(value)
        known = self._older or len(self._recent) >= BEFORE
        limit = max(self._floor, self._factor * self.reference)
        explodes = height >= ABSURD or (known and height >= (limit / BACK if self.has_exploded else limit))
        self.streak.take(explodes, seen)
        if explodes:
            return
        if len(self._recent) == LAG:
            self._older_peak = max(self._older_peak, self._recent[0])
            self._older = True
        self._recent.append(height)


class _Explosions(Rule):
    """The same trouble for several metrics, each against its own past."""

    kind: AlarmKind
    what = ""

    def __init__(self) -> None:
        self._of: dict[str, Explosion] = {}
        self._worst: tuple[str, Explosion] | None = None
        self._has_news = False

    def _take(self, name: str, value: float, seen: Seen, factor: float, floor: float) -> None:
        found = self._of.get(name)
        if found is None:
            if len(self._of) >= MOST_METRICS:
                return
            found = self._of[name] = Explosion(factor, floor)
        found.add(value, seen)
        if found.streak.count:
            self._has_news = True

    def _judge(self) -> None:
        if self._has_news or self.standing:
            self._has_news = False
            found = [(name, each) for name, each in self._of.items() if each.has_exploded]
            self._worst = max(found, key=lambda pair: pair[1].times, default=None)
            self.standing = self._worst is not None

    def alarm(self) -> Alarm:
        assert self._worst is not None  # it stands
        name, found = self._worst
        return found.streak.alarm(
            self.kind,
            f"{self.what}: {name} is {found.value:.4g} {found.streak.where}, before it was "
            f"{found.reference:.4g} at most",
            worthless=self.kind == "divergence" and found.times >= WORTHLESS_FACTOR,
            metric=name,
            value=found.value,
            before=found.reference,
        )


class LossDivergence(_Explosions):
    """A loss that is larger by orders of magnitude than it was, for several rows; in supervised training,
    where it measures errors, also one that is several times what it began with, for many rows."""

    kind = "divergence"
    what = "the run has diverged"

    def __init__(self) -> None:
        super().__init__()
        self._start = Level(START_ROWS, every=1)
        self._worse = Streak()
        self._error = 0.0

    def add(self, seen: Seen) -> None:
        if not seen.losses:
            return
        for name, value in seen.losses.items():
            self._take(
                name, value, seen, VALUE_FACTOR if VALUE_LOSS.search(name) else LOSS_FACTOR, LOSS_FLOOR
            )
        self._judge()
        if "reward" not in seen.of:
            self._take_error(seen)

    def _take_error(self, seen: Seen) -> None:
        error = next((value for name, value in seen.losses.items() if ERROR_NAME.match(name)), None)
        if error is None or not math.isfinite(error):
            return
        if len(self._start) < START_ROWS:
            self._start.add(error)
            return
        start = self._start.median
        self._error = error
        self._worse.take(start >= LEAST_START and error >= WORSE * start, seen)
        self.standing = self.standing or self._worse.count >= WORSE_ROWS

    def alarm(self) -> Alarm:
        if self._worst is not None:
            return super().alarm()
        worse, start = self._worse, self._start.median
        text = f"{self.what}: the loss is {self._error:.4g} {worse.where}, where it began with {start:.4g}"
        return worse.alarm(self.kind, text, value=self._error, before=start)


class KlExplosion(_Explosions):
    """The policy has left its reference, or in one update itself, within a few rows. A slow growth, as
    without a penalty, is none."""

    kind = "kl_explosion"
    what = "the policy has jumped away"

    def add(self, seen: Seen) -> None:
        for name, factor, floor in KL_LIMITS:
            value = seen.of.get(name)
            if value is not None:
                self._take(name, value, seen, factor, floor)
        self._judge()
