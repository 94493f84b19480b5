"""What earlier runs tell of one that is planned: how long it takes, and which metrics it writes.

In: a blueprint, and its config. Out: an `Estimate`, metric names, the programs that were run in a folder.
The runs are found through the index and read from their own folders.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from harness import index, journal
from harness.blueprint import Blueprint
from harness.command import calls, python_programs, values_of
from harness.config import flatten, keys
from harness.config.training import TrainingConfig
from harness.journal.events import SmokeRan
from harness.state import ExperimentState, Outcome
from harness.wording import count_text, short_duration

MOST_READ = 60
"""The newest runs that are looked at."""
MOST_PROGRAMS = 3
_OF_SIZE = ("effective batch", "model", "prompt or response length", "full training or LoRA")
_AMOUNT = "amount of training"


@dataclass(frozen=True)
class Estimate:
    """`run_s`: wall time of one run; `source`: the runs that tell it, in words."""

    run_s: float
    source: str

    @property
    def in_words(self) -> str:
        return f"about {short_duration(self.run_s)} ({self.source})"


@dataclass(frozen=True)
class EarlierRun:
    """A run that this machine knows."""

    folder: Path
    state: ExperimentState

    @property
    def took_s(self) -> float | None:
        """Its wall time, without that in which it waited for a person; None unless it succeeded."""
        state = self.state
        is_good = state.verdict is not None and state.verdict.outcome is Outcome.SUCCEEDED
        return state.took_s(state.finished_at) if is_good and state.finished_at is not None else None

    @property
    def smoke_s(self) -> float | None:
        """How long it would take at the pace of its last smoke run; None where that is not known."""
        ran = journal.events_of(journal.read(self.folder / "journal.jsonl"), SmokeRan)
        return next((each.whole_s for each in reversed(list(ran)) if each.whole_s is not None), None)

    @cached_property
    def program(self) -> _Program:
        config = TrainingConfig.of_attempt(self.folder / "attempts" / "01" / "config.yaml")
        return _program(self.state.blueprint, config.data)

    def metrics(self) -> tuple[str, ...]:
        from harness.results.collect import collect
        from harness.results.result import metric_names
        from harness.results.text import one_line

        return tuple(dict.fromkeys(map(one_line, metric_names(collect(self.folder)))))


@dataclass(frozen=True)
class _Program:
    """What is trained. `size`: settings that decide how long a step takes; `amount`: how many steps or
    epochs, by the key that says it."""

    name: str
    size: Mapping[str, Any]
    amount: Mapping[str, float]

    def share_of(self, other: _Program) -> float | None:
        """How many times as much as the other it trains; None where that cannot be compared."""
        if (self.name, self.size, self.amount.keys()) != (other.name, other.size, other.amount.keys()):
            return None
        shares = {here / other.amount[key] for key, here in self.amount.items() if other.amount[key]}
        return next(iter(shares), 1.0) if len(shares) < 2 else None


def of_blueprint(blueprint: Blueprint) -> list[EarlierRun]:
    """The runs of this blueprint file, the oldest first."""
    named = [run for run in index.runs() if run.name == blueprint.name]
    return [run for run in _read(named) if run.state.blueprint.path == blueprint.path]


def estimate(blueprint: Blueprint, config: str | None = None) -> Estimate | None:
    """What one run takes: the median of the runs of this blueprint file that succeeded, else of runs of the
    same program with settings of the same size, in proportion to its steps; where none succeeded, at the pace
    of their smoke runs; None where there are none."""
    took = [run.took_s for run in of_blueprint(blueprint) if run.took_s is not None]
    if took:
        return Estimate(statistics.median(took), f"{count_text(len(took), 'earlier run')} of this blueprint")
    planned = _program(blueprint, TrainingConfig.of_text(config or "").data)
    alike = [(run, share) for run in _newest() if (share := planned.share_of(run.program)) is not None]
    took = [run.took_s * share for run, share in alike if run.took_s is not None]
    what = "earlier run"
    if not took:
        took = [run.smoke_s * share for run, share in alike if run.smoke_s is not None]
        what = "smoke run"
    if not took:
        return None
    words = f"{count_text(len(took), what)} of {planned.name} with settings of the same size"
    return Estimate(
        statistics.median(took), f"{words}{', in proportion to its steps' * bool(planned.amount)}"
    )


def planned_end(blueprint: Blueprint, config: Mapping[str, Any], axis: str) -> float | None:
    """How many steps or epochs (`axis`) the config or the command names; None where none or several do."""
    amount = _program(blueprint, config).amount
    named = [count for key, count in amount.items() if key.lower().endswith((axis, f"{axis}s"))]
    return named[0] if len(named) == 1 else None


def known_metrics(blueprint: Blueprint) -> tuple[str, ...]:
    """The metrics of the newest run of this blueprint file that has any; () without one."""
    return next(filter(None, (run.metrics() for run in reversed(of_blueprint(blueprint)))), ())


def metrics_of_program(blueprint: Blueprint) -> tuple[str, ...]:
    """The metrics of the newest run of the same program that has any; () without one."""
    name = _program(blueprint, {}).name
    alike = (run for run in reversed(list(_newest())) if run.program.name == name)
    return next(filter(None, (run.metrics() for run in alike)), ())


def in_folder(folder: Path) -> list[EarlierRun]:
    """The newest run of each program of a person's own that was run in this folder."""
    found: dict[str, EarlierRun] = {}
    for run in reversed(_newest()):
        plan = run.state.blueprint
        if plan.launch_command is not None and plan.codebase_dir == folder and run.took_s is not None:
            found.setdefault(run.program.name, run)
    return list(found.values())[:MOST_PROGRAMS]


def _newest() -> list[EarlierRun]:
    return list(_read(index.runs()[-MOST_READ:]))


def _read(runs: list[index.IndexedRun]) -> Iterator[EarlierRun]:
    for run in runs:
        with suppress(journal.JournalDamagedError, OSError):
            yield EarlierRun(run.dir, index.load_state(run.dir))


def _program(plan: Blueprint, config: Mapping[str, Any]) -> _Program:
    values = dict(flatten(config))
    values |= values_of(plan.launch_command or "")
    started = list(python_programs(calls(plan.launch_command or "", plan.codebase_dir, {})))
    name = plan.launch_command or "the bundled trainer"
    if started:
        name = str(started[-1].script or started[-1].module or name)
    about = {key: keys.about(key) for key in values}
    numbers = {key: value for key, value in values.items() if type(value) in (int, float)}
    amount = {key: float(value) for key, value in numbers.items() if about[key] == _AMOUNT}
    size = {key: value for key, value in values.items() if about[key] in _OF_SIZE or key == "ajet.backbone"}
    return _Program(name, size, amount)
