"""Steps that teach nothing: no difference within the groups, gradients that are exactly zero, or a loss that
never moves."""

import math
from collections.abc import Mapping

from monitors.health.evidence import Streak
from monitors.health.types import Alarm, Rule, Seen

ROWS = 20
AT_END = 8
WORTHLESS_ROWS = 10
FLAT_ROWS = 100
ROUND_DIGITS = 2  # a loss that is printed with no more may seem to stand still


class NoSignal(Rule):
    """Rewards differ from step to step or answer to answer, but advantages or gradients are exactly zero.

    Where all rewards are the same there is nothing to learn from: that is another rule's business or, for a
    task that is solved, nobody's. Without rewards, as in supervised training, a loss and gradients of exactly
    zero from the first row on mean that nothing is trained.
    """

    def __init__(self) -> None:
        self._streak = Streak()
        self._reward: float | None = None
        self._has_learned = False
        self._what = ""

    def add(self, seen: Seen) -> None:
        reward = seen.of.get("reward")
        lost = _lost(seen, supervised=reward is None)
        if lost is None:
            return
        varies = self._varies(seen, reward)
        self._has_learned = self._has_learned or not lost
        if not lost:
            self._streak.clear()
        elif varies or (reward is None and not self._has_learned):
            self._what = lost
            self._streak.extend(seen)
        self.standing = self._streak.count >= ROWS

    def _varies(self, seen: Seen, reward: float | None) -> bool:
        before, self._reward = self._reward, reward
        within = seen.of.get("reward_max") != seen.of.get("reward_min")
        return within or (reward is not None and before is not None and reward != before)

    def alarm(self) -> Alarm:
        count = self._streak.count
        text = f"nothing is learned: {self._what} {self._streak.where} ({count} rows)"
        worthless = self._reward is None and count >= WORTHLESS_ROWS  # supervised: so it was all along
        return self._streak.alarm("no_signal", text, worthless=worthless)

    def at_end(self) -> Alarm | None:
        return self.alarm() if self._streak.count >= AT_END else None


class FlatLoss(Rule):
    """Without rewards, every loss is the same to the last printed digit, from the first row on, and so
    is every accuracy: nothing that is trained reaches them, or the learning rate is 0."""

    def __init__(self) -> None:
        self._streak = Streak()
        self._losses: Mapping[str, float] = {}
        self._accuracies: dict[str, float] = {}
        self._has_moved = False

    def add(self, seen: Seen) -> None:
        accuracies = dict(seen.scores)
        if "success" in seen.of:
            accuracies["success"] = seen.of["success"]
        moves = any(self._accuracies.setdefault(name, value) != value for name, value in accuracies.items())
        if seen.losses:
            self._losses = self._losses or seen.losses
            moves = moves or "reward" in seen.of or seen.losses != self._losses or not self._is_exact
        self._has_moved = self._has_moved or moves
        if self._has_moved:
            self._streak.clear()
        elif seen.losses:
            self._streak.extend(seen)
        self.standing = self._streak.count >= FLAT_ROWS

    @property
    def _is_exact(self) -> bool:
        losses = self._losses.values()
        return any(math.isfinite(loss) and loss != float(f"{loss:.{ROUND_DIGITS}g}") for loss in losses)

    def alarm(self) -> Alarm:
        count = self._streak.count
        told = ", ".join(f"{name} is exactly {value:g}" for name, value in self._losses.items())
        text = f"nothing is learned: {told} in all {count} rows from the first one on"
        return self._streak.alarm("no_signal", text, worthless=count >= WORTHLESS_ROWS)

    def at_end(self) -> Alarm | None:
        return self.alarm() if self._streak.count >= AT_END else None


def _lost(seen: Seen, supervised: bool) -> str | None:
    """Say what is exactly zero, "" if nothing is, None where the row does not tell."""
    of, gradients = seen.of, seen.gradients
    no_gradient = bool(gradients) and not any(gradients.values())
    if supervised:
        if not gradients or not seen.losses:
            return None
        return "loss and gradient norm are exactly 0" if no_gradient and not any(seen.losses.values()) else ""
    if no_gradient:
        return "the gradient norm is exactly 0"
    if "advantage_max" in of and "advantage_min" in of:
        return "all advantages are 0" if of["advantage_max"] == of["advantage_min"] == 0 else ""
    if "groups_equal" in of:
        return "all rewards of a group are equal" if of["groups_equal"] == 1 else ""
    if "group_std" in of:
        return "all rewards of a group are equal" if of["group_std"] == 0 else ""
    return "" if gradients else None
