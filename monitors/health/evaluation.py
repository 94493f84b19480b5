"""Validations that only seem to be made: nothing but zeros or NaN, while the training does better."""

import math

from monitors.health.evidence import Progress, Streak
from monitors.health.types import Alarm, Rule, Seen

NAN_VALIDATIONS = 2
ZERO_VALIDATIONS = 5
ZERO_BESIDE_ERRORS = 3
CLEAR_REWARD = 0.3


class EvaluationFails(Rule):
    """Every result of several validations in a row is NaN, or exactly zero although the training clearly has
    rewards; error lines between them make it sooner believed."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._nan = Streak()
        self._zero = Streak()
        self._beside_errors = 0
        self._errors = 0
        self._validations = 0

    def error(self) -> None:
        """An error line was met."""
        self._errors += 1

    def add(self, seen: Seen) -> None:
        if not seen.scores:
            self._judge()
            return
        self._validations += 1
        scores = [value for name, value in seen.scores.items() if "loss" not in name]
        self._nan.take(not any(map(math.isfinite, seen.scores.values())), seen)
        zero = bool(scores) and not any(scores)
        self._zero.take(zero, seen)
        self._beside_errors = self._beside_errors + (self._errors > 0) if zero else 0
        self._errors = 0
        self._judge()

    def _judge(self) -> None:
        if self._nan.count or self._zero.count or self.standing:
            wanted = ZERO_BESIDE_ERRORS if self._beside_errors >= ZERO_BESIDE_ERRORS else ZERO_VALIDATIONS
            has_reward = self._progress.start is not None and self._progress.recent.mean() >= CLEAR_REWARD
            zero = self._zero.count >= wanted and has_reward
            self.standing = self._nan.count >= NAN_VALIDATIONS or zero

    def alarm(self) -> Alarm:
        is_nan = self._nan.count >= NAN_VALIDATIONS
        streak = self._nan if is_nan else self._zero
        beside = "NaN" if is_nan else f"0, while the training's reward is {self._progress.recent.mean():.4g}"
        every = streak.count == self._validations
        return Alarm(
            "evaluation_fails",
            f"all results of the last {streak.count} validations are {beside} ({streak.where})",
            streak.step,
            streak.lines,
            {"validations": streak.count, "beside_errors": self._beside_errors},
            worthless=every and (is_nan or self._beside_errors == streak.count),
        )
