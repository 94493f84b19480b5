"""The two places every metric row goes: one line on the console, one object in `metrics.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from trainer_core.tracking.atomic import cut_back


def console_line(step: int, values: Mapping[str, float]) -> str:
    """`step:12 - actor/kl_loss:0.00123 - …`; six significant digits, counts without a point."""
    return " - ".join([f"step:{step}", *(f"{name}:{_short(value)}" for name, value in values.items())])


class MetricsLog:
    """Appends rows to `metrics.jsonl` and prints them; every row is on disk before the next step begins."""

    def __init__(self, path: Path, console: TextIO, *, resume_step: int | None) -> None:
        """Rows after `resume_step` are dropped, because the resumed run writes them again; None drops all."""
        self._console = console
        self._path = path
        self.last_step = cut_back(path, resume_step)
        """Step of the last row in the file; None when there is none."""

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Add the row of a step."""
        print(console_line(step, values), file=self._console, flush=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, **values}) + "\n")
        self.last_step = step


def _short(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(f"{value:.6g}"))
