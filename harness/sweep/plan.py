"""The plan of a sweep, everything decided before its first run, kept whole in the sweep's journal; and its
folder.

*sweep*: one blueprint varied into points, each run with several seeds. *run*: one experiment. *job*: one
process of the harness that carries a run; a run whose harness dies gets another job.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from harness.config.edit import Scalar
from harness.errors import UserError
from harness.index import JOURNAL
from harness.results.comparing.types import Expectation, Goal, Key, Point
from harness.sweep.hosts import Needs

CANARY = "canary"


def newest_attempt(result_dir: Path) -> Path | None:
    """The folder of a run's newest attempt; None before its first."""
    try:
        numbers = [int(entry.name) for entry in os.scandir(result_dir / "attempts") if entry.name.isdecimal()]
    except OSError:
        return None
    return result_dir / "attempts" / f"{max(numbers):02d}" if numbers else None


class SweepFolder:
    """Where everything in a sweep's folder is; nothing is read or made here.

    sweep.yaml: what a person wrote, everything explicit; blueprint.md: the base blueprint as issued;
    plan.json: points, runs, needs, expectations; sweep.jsonl: the journal; proposal.json: what a model
    proposed, and transcript.jsonl what it was asked, if one was; snapshot/: code and environment that all
    runs share; plan/<run>/: blueprint.json, config.yaml of every run, and blueprint.md for readers;
    jobs/<run>-NN/: the harness processes behind it; <run>/: the result folder of every run, canary/ that of
    the canary; sweep_report.md, sweep_report.html, sweep.json, points.csv, figures/; next/: sweep.yaml of the
    sweep that would decide what is open, proposal.json: why; finish.flag, written last.
    """

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


Design = Literal["grid", "one-at-a-time", "random"]


class SweepError(UserError):
    """The sweep cannot be made as it was asked for; the message says what, where, and how to correct it."""


@dataclass(frozen=True)
class SweepRun:
    """One planned run. `name`: its result folder in the sweep's folder, and its folder in `plan/`. `seed`:
    None where the blueprint's own is used."""

    name: str
    point: str
    seed: int | None

    @property
    def is_canary(self) -> bool:
        """True for the short run that comes before the others and is not compared."""
        return self.name == CANARY


@dataclass(frozen=True)
class SweepPlan:
    """Everything decided before the first run.

    `blueprint`: the file the sweep was made from. `settings`: set in all points alike. `seed_key`: as the
    keys of `keys`. `metric` "": the leading one of the purpose, as the first run that ends names it; `goal`
    None: as its name says. `budget_s`: wall-clock seconds for all of it, None for no limit. `parallel`: runs
    at once. `canary`: settings of the short run that must pass first, {} where the first run itself is the
    canary until its first step. `author`: "person" or the model that proposed it. `options`: of each run's
    harness (`RunOptions` as JSON).
    """

    name: str
    question: str
    blueprint: str
    design: Design
    keys: tuple[Key, ...]
    points: tuple[Point, ...]
    runs: tuple[SweepRun, ...]
    seed_key: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    metric: str = ""
    goal: Goal | None = None
    threshold: float | None = None
    parallel: int = 1
    budget_s: float | None = None
    needs: Needs = field(default_factory=Needs)
    canary: Mapping[str, Any] = field(default_factory=dict)
    expectations: tuple[Expectation, ...] = ()
    author: str = "person"
    options: Mapping[str, Any] = field(default_factory=dict)

    def point(self, name: str) -> Point:
        return next(point for point in self.points if point.name == name)

    @property
    def all_runs(self) -> tuple[SweepRun, ...]:
        """The canary, if there is one (the first run's point and seed), and all runs."""
        canary = [SweepRun(CANARY, self.runs[0].point, self.runs[0].seed)] if self.canary else []
        return (*canary, *self.runs)

    @property
    def varied_keys(self) -> tuple[str, ...]:
        """The keys in which runs may differ: those of the design, and the seed's."""
        return (*(key.name for key in self.keys), *([self.seed_key] if self.seed_key else []))

    def overrides(self, run: SweepRun) -> dict[str, Scalar]:
        """Everything that is set for this run, key to value; what stands later wins."""
        seed: dict[str, Scalar] = {}
        if self.seed_key and run.seed is not None:
            seed[self.seed_key] = run.seed
        canary = self.canary if run.is_canary else {}
        return {**self.settings, **self.point(run.point).levels, **seed, **canary}


NOT_PLANNED = SweepPlan("", "", "", "grid", (), (), (), "")
