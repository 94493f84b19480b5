"""`attempts/NN/metrics.jsonl`: the rows of one attempt, each with the raw file and line that it comes from.

One JSON object per line: {"step": 12, "epoch": null, "values": {"actor/kl_loss": 0.00123},
"source": {"file": …, "line": 14}}. What the source does not say is null. `from` is in the source of a row
that needs earlier lines too; `steps_per_epoch` and `split` are there where a line says them. NaN and
infinities are the words "NaN", "Infinity", "-Infinity", which strict readers of JSON take.
"""

from __future__ import annotations

import json
import math
import os
from array import array
from collections.abc import Iterator, Mapping
from itertools import compress, pairwise
from pathlib import Path
from typing import Any

from monitors.json_numbers import worded
from monitors.metrics import Row
from monitors.metrics.axis import AxisKind, positions
from monitors.metrics.row import number_of
from monitors.records import create_private, scratch_of
from monitors.rules import MetricSource, is_validation

_PLAIN = frozenset((float,))
_LOG = MetricSource.CONSOLE.value


class MetricsFile:
    """Writes the file from scratch: rows gather in a scratch file until `publish`, then in place."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._scratch = scratch_of(path)
        self._file = os.fdopen(create_private(self._scratch), "w", encoding="utf-8")
        self._published = False

    def add(self, row: Row, file: str, line: int, first_line: int) -> None:
        """Add one row, whose lines begin at `first_line`; `file` is relative to the attempt's folder."""
        source = {"file": file, "line": line, **({"from": first_line} if first_line < line else {})}
        more = {"steps_per_epoch": row.steps_per_epoch, "split": row.split}
        record = {"step": row.step, "epoch": row.epoch, "values": worded(row.named()), "source": source}
        self._file.write(json.dumps(record | {key: value for key, value in more.items() if value}) + "\n")

    def publish(self) -> None:
        """Let readers see everything added so far."""
        self._file.flush()
        if not self._published:
            self._scratch.replace(self._path)
            self._published = True

    def close(self) -> None:
        self._file.close()
        if not self._published:
            self._scratch.unlink(missing_ok=True)


def json_object(line: bytes | str) -> dict[str, Any] | None:
    """The JSON object that a line is; None where it is none."""
    try:
        data = json.loads(line if isinstance(line, str) else line.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def values_in(record: Mapping[str, Any]) -> dict[str, float] | None:
    """The values of a record as numbers; None where it has none."""
    values = record.get("values")
    if not isinstance(values, dict):
        return None
    numbers = ((str(name), number_of(value)) for name, value in values.items())
    return {name: number for name, number in numbers if number is not None}


def _finite(raw: object) -> float:
    """The number that a JSON value is, NaN for none and for infinities."""
    number = None if raw is None else number_of(raw)
    return number if number is not None and math.isfinite(number) else math.nan


class MetricTable:
    """The rows of one file, held as columns: thousands of bytes where rows would be millions.

    `lines`: of each row, from 1. `trains`: whether a row is of the training. `is_of_log`: some were taken
    from the terminal's log.
    """

    def __init__(self) -> None:
        self.lines = array("q")
        self.trains = bytearray()
        self.is_of_log = False
        self.shapes: list[tuple[str, ...]] = []
        """Names that stand together in rows; `shape` says which row has which."""
        self.shape = array("i")
        self.values = array("d")
        """Of all rows, one after the other."""
        self._known: dict[tuple[str, ...], int] = {}
        self._trains: dict[tuple[int, str], bool] = {}  # by shape and split
        self._steps, self._epochs = array("d"), array("d")  # NaN for none
        self._counters: dict[int, tuple[int | None, str]] = {}  # steps per epoch and split, by row
        self._placed: tuple[AxisKind, array[float]] | None = None

    @classmethod
    def read(cls, path: Path) -> MetricTable:
        """The rows of a file; what is damaged is passed over, and a missing file is empty."""
        table = cls()
        try:
            with path.open("rb") as file:
                for number, line in enumerate(file, start=1):
                    table.add(number, json_object(line) or {})
        except FileNotFoundError:
            pass
        return table

    def __len__(self) -> int:
        return len(self.lines)

    def add(self, line: int, record: Mapping[str, Any]) -> bool:
        """Take in the record on a line; False where it has no values."""
        values, source = record.get("values"), record.get("source")
        if not isinstance(values, dict):
            return False
        if not _PLAIN.issuperset(map(type, values.values())):
            values = values_in(record) or {}
        names = tuple(values)
        shape = self._known.setdefault(names, len(self.shapes))
        if shape == len(self.shapes):
            self.shapes.append(names)
        per_epoch, split = number_of(record.get("steps_per_epoch")), str(record.get("split") or "")
        if per_epoch or split:
            self._counters[len(self.lines)] = (int(per_epoch) if per_epoch else None, split)
        step, epoch = _finite(record.get("step")), _finite(record.get("epoch"))
        self._steps.append(step if abs(step) < 2**53 and step == int(step) else math.nan)
        self._epochs.append(epoch)
        self.lines.append(line)
        self.shape.append(shape)
        self.values.extend(values.values())
        if (trains := self._trains.get((shape, split))) is None:
            trains = self._trains[shape, split] = not is_validation(Row(None, values, split=split))
        self.trains.append(trains)
        self.is_of_log = self.is_of_log or (isinstance(source, dict) and source.get("file") == _LOG)
        return True

    def rows(self) -> Iterator[tuple[int, Row]]:
        """Every row with its line, made anew."""
        start = 0
        for line, shape, row in zip(self.lines, self.shape, self.bare(), strict=True):
            names = self.shapes[shape]
            row.values.update(zip(names, self.values[start : start + len(names)], strict=True))
            start += len(names)
            yield line, row

    def bare(self) -> Iterator[Row]:
        """The rows without their values."""
        for index, (step, epoch) in enumerate(zip(self._steps, self._epochs, strict=True)):
            per_epoch, split = self._counters.get(index, (None, ""))
            whole, part = None if step != step else int(step), None if epoch != epoch else epoch
            yield Row(whole, {}, part, per_epoch, split)

    def placed(self) -> tuple[AxisKind, array[float]]:
        """The kind of the axis, and the position of every row."""
        if self._placed is None:
            is_plain = not self._counters and all(epoch != epoch for epoch in self._epochs)
            if is_plain and self.lines and all(one <= other for one, other in pairwise(self._steps)):
                self._placed = ("step", self._steps) if self._steps[0] == self._steps[0] else None
            if self._placed is None:
                kind, places = positions(self.bare())
                self._placed = kind, array("d", places)
        return self._placed

    def trained(self) -> list[float]:
        """The positions of the rows of the training."""
        return list(compress(self.placed()[1], self.trains))

    def is_printed(self, index: int) -> bool:
        """True if the row names its position itself."""
        kind, places = self.placed()
        return kind != "row" and places[index] == (self._steps if kind == "step" else self._epochs)[index]
