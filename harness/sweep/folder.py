"""The folder of a sweep: where everything in it is.

```
exp_results/<sweep>/
  sweep.yaml     what a person wrote, everything explicit      blueprint.md   the base blueprint as issued
  plan.json      points, runs, needs, expectations             sweep.jsonl    the journal of the sweep
  proposal.json  what a model proposed, and transcript.jsonl what it was asked, if one was
  snapshot/      code and environment that all runs share
  plan/<run>/    blueprint.json, config.yaml of every run, and blueprint.md for readers
  jobs/<run>-NN/ the harness processes behind it
  <run>/         the result folder of every run, canary/ that of the canary
  sweep_report.md  sweep_report.html  sweep.json  points.csv  figures/
  next/          sweep.yaml of the sweep that would decide what is open, proposal.json: why
  finish.flag    written last
```
"""

import os
from pathlib import Path

from harness.index import JOURNAL

CANARY = "canary"


def newest_attempt(result_dir: Path) -> Path | None:
    """The folder of a run's newest attempt; None before its first."""
    try:
        numbers = [int(entry.name) for entry in os.scandir(result_dir / "attempts") if entry.name.isdecimal()]
    except OSError:
        return None
    return result_dir / "attempts" / f"{max(numbers):02d}" if numbers else None


class SweepFolder:
    """One sweep's folder; nothing is read or made here."""

    def __init__(self, folder: Path) -> None:
        self.dir = folder
        self.journal = folder / JOURNAL
        self.spec = folder / "sweep.yaml"
        self.blueprint = folder / "blueprint.md"
        self.plan = folder / "plan.json"
        self.proposal = folder / "proposal.json"
        self.transcript = folder / "transcript.jsonl"
        self.snapshot = folder / "snapshot"
        self.finish_flag = folder / "finish.flag"

    def run_blueprint(self, run: str) -> Path:
        return self.dir / "plan" / run / "blueprint.md"

    def run_data(self, run: str) -> Path:
        """The same blueprint as data, which the run is started from."""
        return self.dir / "plan" / run / "blueprint.json"

    def run_config(self, run: str) -> Path:
        return self.dir / "plan" / run / "config.yaml"

    def result_dir(self, run: str) -> Path:
        return self.dir / run

    def job(self, run: str, number: int) -> Path:
        return self.dir / "jobs" / f"{run}-{number:02d}"
