"""What a run's own files say: how far it is, how it ended, whether it has a metric.

In: result folders, and the runs' configs for the number of steps they will take. A look costs a few
milliseconds however long the run, so that hundreds of runs can be looked at; the comparison at the end reads
the raw files.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from harness.config.training import steps_fixed_by
from harness.results.raw import json_file, number_in
from harness.sweep.plan import SweepFolder, newest_attempt
from monitors.files import AttemptFiles
from monitors.logs import lines_at_end, tail
from monitors.metrics_file import json_object

TAIL_BYTES = 64 << 10


@dataclass(frozen=True)
class Progress:
    """Where a run is. `total`: None where its config does not fix it."""

    step: int | None = None
    total: int | None = None


@dataclass(frozen=True)
class RunEnd:
    """How a run ended: its outcome, and the reason for it in a sentence."""

    outcome: str
    reason: str


def progress(folder: SweepFolder, run: str) -> Progress:
    """Where a run of the sweep is now."""
    return Progress(last_step(folder.result_dir(run)), _total_steps(folder.run_config(run)))


_total_steps = lru_cache(maxsize=4096)(steps_fixed_by)


def last_step(result_dir: Path) -> int | None:
    """The newest step in the metrics of the newest attempt; None before its first."""
    steps = (number_in(row, "step") for row in reversed(_last_rows(result_dir)))
    return next((int(step) for step in steps if step is not None and math.isfinite(step)), None)


def run_end(result_dir: Path) -> RunEnd | None:
    """How the run ended; None while there is no finish.flag."""
    flag = json_file(result_dir / "finish.flag", "finish.flag", [])
    return None if flag is None else RunEnd(str(flag.get("outcome", "failed")), str(flag.get("reason", "")))


def last_words(job_folder: Path) -> str:
    """The last line that a job printed, for a run that could not even begin."""
    lines = [line.text.strip() for line in tail(AttemptFiles(job_folder).pane_log, 20)]
    return next((line.removeprefix("harness: ") for line in reversed(lines) if line), "it printed nothing")


def has_value(result_dir: Path, metric: str) -> bool:
    """True if the last rows of the newest attempt have the metric."""
    names = (name.lower() for row in _last_rows(result_dir) for name in row.get("values") or ())
    return metric in names


def _last_rows(result_dir: Path) -> list[dict[str, Any]]:
    newest = newest_attempt(result_dir) or result_dir
    rows = map(json_object, lines_at_end(newest / "metrics.jsonl", TAIL_BYTES))
    return [row for row in rows if row is not None]
