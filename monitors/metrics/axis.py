"""Where rows stand on the x axis: at their step, else at their epoch, else at their row number.

A step counter that starts again in each epoch is continued over the epochs. Rows between, such as those of a
validation, that name neither stand where the row before them stands.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

from monitors.metrics.row import Row

AxisKind = Literal["step", "epoch", "row"]
AXIS_WORDS: Mapping[AxisKind, str] = {"step": "step", "epoch": "epoch", "row": "row number"}
"""What the places are called, on axes and in sentences."""


class Axis:
    """Gives each row of one run its place, in the order they are printed. `kind`: what the places are; it is
    set by the first row and changes only if a row shows that a better one is there."""

    def __init__(self, kind: AxisKind | None = None) -> None:
        self.kind: AxisKind = kind or "row"
        self._is_fixed = kind is not None
        self._rows = 0
        self._last = 0.0
        self._step = 0
        self._highest = 0
        self._epoch: float | None = None
        self._epoch_step = 0  # of the last row that named an epoch
        self._base = 0.0  # where the epoch began whose steps are counted
        self._starts_again = False

    def place(self, row: Row) -> float:
        """Return the place of the next row."""
        self._rows += 1
        if not self._is_fixed and self.kind != "step":
            self.kind = "step" if _counts_steps(row) else "epoch" if row.epoch is not None else self.kind
        if self.kind == "row":
            self._last = float(self._rows)
        elif self.kind == "epoch":
            self._last = self._last if row.epoch is None else row.epoch
        elif row.step is not None and (not row.split or (not row.steps_per_epoch and row.step >= self._last)):
            self._last = self._last if self._is_new_bar(row) else self._continued(row, row.step)
        return self._last

    def _is_new_bar(self, row: Row) -> bool:
        """True for a bar that has been set back and still names the epoch that is over."""
        return _is_set_back(row) and row.epoch == self._epoch and self._step > 0

    def _continued(self, row: Row, step: int) -> float:
        """The step counted over all epochs."""
        if row.epoch is not None:
            if (
                self._epoch is not None
                and row.epoch > self._epoch
                and (self._starts_again or step <= self._epoch_step)
            ):
                self._starts_again = True
                self._base += row.steps_per_epoch or self._highest
                self._highest = 0
            self._epoch, self._epoch_step = row.epoch, step
        self._step, self._highest = step, max(self._highest, step)
        return self._base + step


def _is_set_back(row: Row) -> bool:
    return row.step == 0 and row.steps_per_epoch is not None and row.epoch is not None


def _counts_steps(row: Row) -> bool:
    """True if the step says more than the epoch: the last step of an epoch does not."""
    return row.step is not None and not (row.epoch is not None and row.step == row.steps_per_epoch)


def axis_kind(rows: Iterable[Row]) -> AxisKind:
    """Return what most rows of the training name: a step before an epoch. Steps that go back to the first one
    without an epoch that grows say nothing: then it is the epoch, or the row number. So do epochs that start
    again, as in the folds of a cross validation."""
    steps = epochs = count = returns = restarts = 0
    first: int | None = None
    first_epoch: float | None = None
    epoch: float | None = None
    last: Row | None = None
    for row in rows:
        if row.split:
            continue
        count += 1
        if row.epoch is not None:
            epochs += 1
            first_epoch = row.epoch if first_epoch is None else first_epoch
            restarts += epoch is not None and row.epoch < epoch and row.epoch <= first_epoch
            epoch = row.epoch
        if row.step is None:
            continue
        steps += _counts_steps(row)
        first = row.step if first is None else first
        if last is not None and last.step is not None and row.step < last.step:
            grows = row.epoch is not None and last.epoch is not None and row.epoch > last.epoch
            is_new_bar = _is_set_back(row) and row.epoch == last.epoch
            returns += not grows and not is_new_bar and row.step <= first
        last = row
    if steps and not returns and 2 * steps >= count:
        return "step"
    if restarts:
        return "row"
    if 2 * epochs >= count and epochs:
        return "epoch"
    return "step" if steps and not returns else "row"


def positions(rows: Iterable[Row]) -> tuple[AxisKind, list[float]]:
    """Return the kind of axis of a run's rows and the place of each."""
    rows = list(rows)
    axis = Axis(axis_kind(rows))
    return axis.kind, [axis.place(row) for row in rows]


def whole(position: float) -> float:
    """Return a place without a point where it is whole."""
    return int(position) if position == int(position) else position


def place_text(kind: AxisKind, position: float) -> str:
    """Return a place in words: `step 40`, `epoch 1.5`, `row number 15`."""
    return f"{AXIS_WORDS[kind]} {whole(position)}"
