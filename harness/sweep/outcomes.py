"""What became of a run, read from its result folder: the outcome in its finish.flag, the metric at its end.

Only small JSON files are read, so that a scheduler with hundreds of runs stays light; the comparison at the
end reads the raw files.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.results.raw import json_file
from monitors.files import AttemptFiles
from monitors.logs import tail

CHOSEN = ("key/pass_rate_end", "key/reward_recent")
"""What stands for a run while it is not known which metric the comparison will choose."""


@dataclass(frozen=True)
class RunEnd:
    """How a run ended: its outcome, and the reason for it in a sentence."""

    outcome: str
    reason: str


def run_end(result_dir: Path) -> RunEnd | None:
    """How the run ended; None while there is no finish.flag."""
    flag = json_file(result_dir / "finish.flag", "finish.flag", [])
    if flag is None:
        return None
    return RunEnd(str(flag.get("outcome", "failed")), str(flag.get("reason", "")))


def last_words(job_folder: Path) -> str:
    """The last line that a job printed, for a run that could not even begin."""
    lines = [line.text.strip() for line in tail(AttemptFiles(job_folder).pane_log, 20)]
    return next((line.removeprefix("harness: ") for line in reversed(lines) if line), "it printed nothing")


def value_at_end(result_dir: Path, metric: str) -> float | None:
    """The metric at the run's end, as its own report has it; None where it is not known."""
    result = json_file(result_dir / "result.json", "result.json", [])
    known = (result or {}).get("facts", ())
    facts = {fact.get("id"): fact.get("value") for fact in known}
    recent = tuple(
        fact["id"] for fact in known if fact.get("recipe") == "mean" and fact.get("note") == metric
    )
    name = metric.removeprefix("val/")
    if not metric or name == "task_pass_rate@1":
        wanted: tuple[str, ...] = CHOSEN if not metric else CHOSEN[:1]
    elif metric.startswith("val/"):
        steps = [int(step) for step in (_step(fact, name) for fact in facts) if step is not None]
        wanted = (f"val/{max(steps)}/{name}",) if steps else ()
    else:
        wanted = (*recent, f"metric/{metric}/last")  # the comparison, too, takes the mean of the last rows
    return next((float(facts[fact]) for fact in wanted if _is_number(facts.get(fact))), None)


def _step(fact: Any, name: str) -> str | None:
    parts = str(fact).split("/", 2)
    is_it = len(parts) == 3 and parts[0] == "val" and parts[2] == name and parts[1].isdigit()
    return parts[1] if is_it else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
