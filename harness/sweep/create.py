"""From what a person wrote to a sweep that can start: plan, folder, snapshot, a blueprint for every run.

Everything that can be refused is refused here, before the first run. A kill in the middle leaves a folder
whose journal has not begun; the next sweep of that name takes it over and writes it anew.
"""

import shutil
import tempfile
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import index
from harness.atomic_write import copy_private, write_atomically, write_json
from harness.blueprint import Blueprint
from harness.codec import encode
from harness.experiment import Clock
from harness.index import is_sweep
from harness.journal import JournalOwnedError, Owner
from harness.sweep import points, snapshot
from harness.sweep.plan import SweepError, SweepFolder, SweepPlan
from harness.sweep.points import check_keys, warnings
from harness.sweep.spec import SweepSpec
from harness.sweep.spec_text import to_yaml
from harness.sweep.state import Sweep, SweepCreated, load_state
from monitors.processes import steady_time


def rehearse(plan: SweepPlan, blueprint: Blueprint) -> tuple[str, ...]:
    """Write what every run is started from into a folder that is thrown away; returns what is worth
    considering. Raises SweepError for what `make` would refuse."""
    base = points.Base(blueprint, points.config_text(blueprint), blueprint.codebase_dir)
    check_keys(plan, blueprint, base.config)
    with tempfile.TemporaryDirectory() as temporary:
        folder = SweepFolder(Path(temporary).resolve() / plan.name)
        points.write_runs(plan, base, folder)
    return warnings(plan, base)


def make(
    spec: SweepSpec,
    plan: SweepPlan,
    blueprint: Blueprint,
    proposal: Mapping[str, Any] | None = None,
    clock: Clock = steady_time,
) -> Sweep:
    """A new sweep, ready for its scheduler. `proposal`: what a model proposed, and its calls, kept beside the
    plan. Raises SweepError, JournalOwnedError (it is being made or run now), OSError."""
    sweep = _claim(blueprint.result_dir.parent / plan.name, clock)
    try:
        folder, plan = sweep.folder, replace(plan, name=sweep.dir.name)
        copy_private(blueprint.path, folder.blueprint)
        write_atomically(folder.spec, to_yaml(spec), mode=0o600)
        if proposal is not None:
            write_json(folder.proposal, proposal)
        check_keys(plan, blueprint, points.config_text(blueprint))
        points.write_runs(plan, snapshot.base_of(blueprint, folder, snapshot.take(blueprint, folder)), folder)
        write_json(folder.plan, encode(plan), mode=0o600)
        sweep_id = uuid.uuid4().hex[:12]
        index.add(index.IndexedRun(sweep_id, plan.name, str(sweep.dir), clock(), "sweep"))
        sweep.record(SweepCreated(sweep_id, plan))
        sweep.record(Owner.this_process(sweep.clock))
    except BaseException:
        sweep.close()
        if not is_sweep(sweep.dir):
            shutil.rmtree(sweep.dir, ignore_errors=True)
        raise
    return sweep


def _claim(first: Path, clock: Clock) -> Sweep:
    """Own the sweep's folder: new, left by a making that was cut off, or the next free `-2`, `-3` …"""
    candidate, number = first, 1
    while candidate.exists() and (is_sweep(candidate) or not _is_left_over(candidate)):
        if is_sweep(candidate) and load_state(candidate).finished_at is None:
            raise SweepError(
                f"{candidate} holds a sweep that has not finished: `harness resume {candidate}` goes on with "
                f"it, `harness stop {candidate}` ends it; `--set name=NAME` starts a new one beside it"
            )
        number += 1
        candidate = first.with_name(f"{first.name}-{number}")
    candidate.mkdir(parents=True, exist_ok=True)
    try:
        sweep = Sweep(candidate, clock)
    except JournalOwnedError as error:
        raise SweepError(
            f"{candidate} is being made by another process now: wait, or choose another `--set name=NAME`"
        ) from error
    for path in candidate.iterdir():
        if path != sweep.folder.journal:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    return sweep


def _is_left_over(folder: Path) -> bool:
    """True if the folder is empty, or holds what a making that was cut off has left."""
    return folder.is_dir() and (SweepFolder(folder).journal.exists() or not any(folder.iterdir()))
