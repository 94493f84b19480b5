"""The words of a sweep: what was planned, what a run needs of a machine, and what runs where.

*sweep*: one blueprint varied into points, each run with several seeds. *run*: one experiment. *job*: one
process of the harness that carries a run; a run whose harness dies gets another job. *lease*: the part of a
machine that a job may use, and nobody else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from harness.results.comparing.types import Expectation, Goal, Key, Point

Design = Literal["grid", "one-at-a-time", "random"]


class SweepError(Exception):
    """The sweep cannot be made as it was asked for; the message says what, where, and how to mend it."""


@dataclass(frozen=True)
class Needs:
    """What one run needs of a machine.

    `gpus`: whole GPUs. `cpus`: cores, None for an equal share of those of the machine. `memory_bytes`: None
    for an equal share. `ports`: names of environment variables that each get a port of their own.
    `share_gpus`: a GPU that others use is good enough. `sharers`: among how many runs the machine is shared
    equally, where a share is not said.
    """

    gpus: int = 0
    cpus: float | None = None
    memory_bytes: int | None = None
    ports: tuple[str, ...] = ("MASTER_PORT",)
    share_gpus: bool = False
    sharers: int = 1


@dataclass(frozen=True)
class SweepRun:
    """One planned run. `name`: its result folder in the sweep's folder, and its blueprint's folder in
    `plan/`.
    `seed`: None where the blueprint's own is used."""

    name: str
    point: str
    seed: int | None


@dataclass(frozen=True)
class SweepPlan:
    """Everything decided before the first run; kept whole in the sweep's journal.

    `blueprint`: the file the sweep was made from. `settings`: set in all points alike. `seed_key`: as the
    keys of `keys`. `metric` "" : chosen afterwards, and marked so. `budget_s`: wall-clock seconds for all of
    it, None for no limit. `parallel`: runs at once. `canary`: settings of the short run that must pass first,
    {} where the first run itself is the canary until its first step. `author`: "person" or the model that
    proposed it.
    `options`: of each run's harness (`RunOptions.as_json`).
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
    goal: Goal = "max"
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

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SweepPlan:
        """The inverse of `as_json`, after a trip through JSON."""
        values = dict(data)
        values["keys"] = tuple(
            Key(key["name"], tuple(key["levels"]), key["baseline"]) for key in values["keys"]
        )
        values["points"] = tuple(Point(**point) for point in values["points"])
        values["runs"] = tuple(SweepRun(**run) for run in values["runs"])
        values["expectations"] = tuple(Expectation(**item) for item in values["expectations"])
        values["needs"] = Needs(**{**values["needs"], "ports": tuple(values["needs"]["ports"])})
        return cls(**values)


@dataclass(frozen=True)
class Lease:
    """A part of one machine. `id`: unique on it. `gpus`: their indices as CUDA_VISIBLE_DEVICES wants them.
    `ports`: environment variable to port."""

    id: str
    gpus: tuple[str, ...] = ()
    cpus: float = 1.0
    memory_bytes: int = 0
    ports: Mapping[str, int] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """What a process must have in its environment to keep to its part."""
        threads = str(max(1, int(self.cpus)))
        limits = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), threads)
        return {
            **limits,
            "CUDA_VISIBLE_DEVICES": ",".join(self.gpus),
            **{name: str(port) for name, port in self.ports.items()},
        }


@dataclass(frozen=True)
class Job:
    """One process of the harness that carries a run. `id`: unique for ever. `folder`: the job's own, which
    the host fills (`AttemptFiles`). `result_dir`: of the run, whose training may outlive the job. `command`:
    argv.
    """

    id: str
    run: str
    folder: Path
    result_dir: Path
    command: tuple[str, ...]
    cwd: Path
    environment: Mapping[str, str]
    lease: Lease


@dataclass(frozen=True)
class JobEnd:
    """How a job ended. `status`: the exit status of the harness, None where it was lost."""

    status: int | None
    detail: str
