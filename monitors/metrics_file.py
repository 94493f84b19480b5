"""`attempts/NN/metrics.jsonl`: the rows of one attempt, each with the raw file and line that it comes from.

One JSON object per line: {"step": 12, "epoch": null, "values": {"actor/kl_loss": 0.00123},
"source": {"file": …, "line": 14}}. What the source does not say is null. `from` is in the source of a row
that needs earlier lines too; `steps_per_epoch` and `split` are there where a line says them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from monitors.metrics import Row
from monitors.records import create_private, scratch_of


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
        record = {"step": row.step, "epoch": row.epoch, "values": row.named(), "source": source}
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


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the records of a metrics file; a torn last line is left out, a missing file is empty.

    Raises ValueError, naming the line, if any other line is damaged.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        return []
    records = []
    for number, line in enumerate(lines[:-1], start=1):  # what follows the last line feed is torn, or nothing
        try:
            records.append(json.loads(line))
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: not a JSON object ({error})") from error
    return records
