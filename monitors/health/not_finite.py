"""Losses, rewards and gradient norms that are not numbers any more."""

import math

from monitors.health.evidence import Streak
from monitors.health.types import Alarm, Rule, Seen
from monitors.rules import GRADIENT_NAME

BROKEN_ROWS = 3
BROKEN_GRADIENTS = 20  # with 16-bit floats a loss scale too high gives infinite norms until it has come down
BROKEN_AT_END = 2
BROKEN_GRADIENTS_AT_END = 3
WORTHLESS_GRADIENTS = 10


class NotFinite(Rule):
    """Rows with values that are not finite, gradient norms apart: those may be a loss scale coming down."""

    def __init__(self, file: str) -> None:
        self._of_file = f" of {file}" if file else ""
        self._streak = Streak()
        self._beyond_gradients = 0
        self._nan_gradients = 0
        self._first = self._last = ""

    def add(self, seen: Seen) -> None:
        if not seen.vital:
            return
        broken = {name: value for name, value in seen.vital.items() if not math.isfinite(value)}
        self._streak.take(bool(broken), seen)
        if not broken:
            self._beyond_gradients = self._nan_gradients = 0
            self._first = ""
            self.standing = False
            return
        values = ", ".join(f"{name} is {_word(value)}" for name, value in list(broken.items())[:3])
        at = "" if seen.step is None else f" at step {seen.step}"
        self._last = f"{values}{at} (line {seen.line}{self._of_file})"
        self._first = self._first or self._last
        only_gradients = all(GRADIENT_NAME.search(name) for name in broken)
        self._beyond_gradients = 0 if only_gradients else self._beyond_gradients + 1
        self._nan_gradients = self._nan_gradients + 1 if any(map(math.isnan, broken.values())) else 0
        self.standing = self._beyond_gradients >= BROKEN_ROWS or self._streak.count >= BROKEN_GRADIENTS

    def alarm(self) -> Alarm:
        return self._alarm(fatal=True, worthless=True)

    def at_end(self) -> Alarm | None:
        if self.standing:
            return self.alarm()
        count = self._streak.count
        if self._beyond_gradients >= BROKEN_AT_END:
            return self._alarm(fatal=False, worthless=True)
        if self._nan_gradients >= BROKEN_GRADIENTS_AT_END or count >= WORTHLESS_GRADIENTS:
            return self._alarm(fatal=False, worthless=count >= WORTHLESS_GRADIENTS)
        return None

    def _alarm(self, fatal: bool, worthless: bool) -> Alarm:
        text = (
            f"the last {self._streak.count} metric rows all have a value that is not finite: "
            f"first {self._first}, last {self._last}"
        )
        return self._streak.alarm(
            "nan" if self._beyond_gradients else "nan_gradients", text, fatal, worthless
        )


def _word(value: float) -> str:
    return "NaN" if math.isnan(value) else "infinite"
