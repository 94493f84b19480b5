"""A row of metrics, and what its numbers are called."""

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


def step_of(value: float) -> int | None:
    """Return the step that a number is: None for a fraction, and for one too large to be exact."""
    return int(value) if abs(value) < 2**53 and value == int(value) else None


def row_of(values: Mapping[str, float]) -> Row | None:
    """Return the row that named numbers are: a step and an epoch among them are no metrics."""
    rest = dict(values)
    step: int | None = None
    for name in STEP_NAMES:
        if step is None and name in rest:
            step = step_of(rest.pop(name))
    epoch = rest.pop("epoch", None)
    if epoch is not None and not math.isfinite(epoch):
        epoch = None
    return Row(step, rest, epoch) if rest or step is not None else None


def row_from_object(record: object) -> Row | None:
    """Return the row that a decoded JSON object is."""
    return row_of(numbers_in(record))


def numbers_in(record: object, outer: str = "") -> dict[str, float]:
    """Return the numbers of a decoded JSON object, those of objects in it as `outer/inner`."""
    found: dict[str, float] = {}
    for key, raw in record.items() if isinstance(record, dict) else ():
        name = outer + metric_name(str(key))
        if isinstance(raw, dict) and not outer:
            found |= numbers_in(raw, f"{name}/")
        elif (number := number_of(raw)) is not None:
            found[name] = number
    return found
