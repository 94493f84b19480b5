"""A row of metrics, and what its numbers are called."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

NUMBER = r"[-+]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|nan|inf(?:inity)?)"
STEP_NAMES = (
    *("step", "global_step", "_step", "training/global_step", "train/global_step"),
    *("iteration", "iter", "num_updates", "total_timesteps", "current_steps"),
)
_NUMBER = re.compile(NUMBER, re.IGNORECASE)


@dataclass(frozen=True)
class Row:
    """One row of metrics, as it was printed.

    `step`, `epoch`: None where the row names none. `steps_per_epoch`: where a counter ends ("100/600"),
    `epochs`: how many there will be ("epoch 3/20"). `split`: the data the whole row is about ("test"), where
    the line says so apart from the names. NaN and infinities are kept in `values`.
    """

    step: int | None
    values: dict[str, float]
    epoch: float | None = None
    steps_per_epoch: int | None = None
    split: str = ""
    epochs: int | None = None

    @property
    def at(self) -> float:
        """Where it stands by itself: its step, else its epoch, else 0."""
        return next((float(place) for place in (self.step, self.epoch) if place is not None), 0.0)

    def named(self) -> dict[str, float]:
        """The values under names that say what data they are about: `test/loss` in a row about "test", and
        `test_batch/loss` before the last batch of a test."""
        if not self.split:
            return self.values
        is_batch = self.step is not None and self.step < (self.steps_per_epoch or 0)
        head = f"{self.split}_batch/" if is_batch else f"{self.split}/"
        return {name if name.startswith(head) else head + name: value for name, value in self.values.items()}


def metric_name(text: str) -> str:
    """Return what a metric is called: as printed, in lower case, blanks as `_`."""
    return "_".join(text.lower().split())


def number_of(raw: object) -> float | None:
    """Return the number that a value is, also as text ("0.5", "nan"); None where it is none."""
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        return None
    if isinstance(raw, str) and not _NUMBER.fullmatch(raw.strip()):
        return None
    try:
        return float(raw)
    except OverflowError:
        return math.inf


def row_of(values: Mapping[str, float]) -> Row | None:
    """Return the row that named numbers are: a step and an epoch among them are no metrics."""
    rest = dict(values)
    step: int | None = None
    for name in STEP_NAMES:
        value = rest.get(name)
        if step is None and value is not None and math.isfinite(value) and value == int(value):
            step = int(rest.pop(name))
    epoch = rest.pop("epoch", None)
    if epoch is not None and not math.isfinite(epoch):
        epoch = None
    return Row(step, rest, epoch) if rest or step is not None else None


def row_from_object(record: object) -> Row | None:
    """Return the row that a decoded JSON object is: its numbers, those of objects in it as `outer/inner`."""
    if not isinstance(record, dict):
        return None
    return row_of(dict(_numbers(record)))


def _numbers(record: Mapping[object, object], outer: str = "") -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for key, raw in record.items():
        name = outer + metric_name(str(key))
        if isinstance(raw, dict) and not outer:
            found += _numbers(raw, f"{name}/")
        elif (number := number_of(raw)) is not None:
            found.append((name, number))
    return found
