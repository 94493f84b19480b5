"""Any result folders as a study: which runs are one point, and what the points differ in.

In: folders of runs and of sweeps. Out: `Gathered`: a study, and its runs' files. Some runs of one sweep are
taken from its plan. Any others are grouped by their own settings: runs that differ in nothing but the seed
are one point, settings that differ are keys, and the first folder's point is the baseline. Settings that
always change together are one key, since nobody can tell them apart, and where no two points differ in one
key alone, points are compared whole. Copies of one run are one run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path

import numpy as np

from harness.config.edit import Scalar
from harness.result_folders import is_sweep, sweep_of
from harness.results.comparing.cells import Cells, is_same, sides
from harness.results.comparing.found_runs import found_runs, once, plan_of
from harness.results.comparing.runs import RunFiles, read_files
from harness.results.comparing.settings import (
    COMMAND,
    Settings,
    differing,
    is_path,
    seed_names,
    settings_of,
    with_one_seed,
)
from harness.results.comparing.types import Goal, Key, NotComparableError, Point, Study
from harness.wording import value_text

WHOLE = "point"
"""The key of a study whose points can only be compared whole; its levels are their names."""
_LONGEST_NAME = 60


Planned = Callable[[Path], "Study | None"]
"""The study that the sweep in a folder was planned as; None where nobody can tell."""


@dataclass(frozen=True)
class Gathered:
    """A study as its plan or its runs tell it. `files`, `settings`: one per run, in the same order; `copies`:
    folders that are left out because they hold a run that is in the study, one sentence each."""

    study: Study
    files: Sequence[RunFiles]
    settings: Sequence[Settings]
    copies: tuple[str, ...] = ()


def gathered(folders: Sequence[Path], planned: Planned) -> Gathered:
    """The study that these folders make up, with the metric and goal of the plans where they agree.

    Raises NotComparableError for folders that hold no run. A whole sweep by itself is compared by
    `harness.sweep.reporting`, which knows more of it.
    """
    sweeps = {sweep_of(folder) for folder in folders}
    (sweep,) = sweeps if len(sweeps) == 1 else (None,)
    if sweep is None:
        return _given(folders, _plans(folders, planned))
    study = _part(plan_of(sweep, _plans(folders, planned)), folders)
    files = [read_files(run) for run in study.runs]
    return Gathered(study, files, [settings_of(one, {study.seed_key}) for one in files])


def as_asked(
    study: Study, metric: str = "", goal: Goal | None = None, threshold: float | None = None
) -> Study:
    """The study with what a person asks for in the place of its own; "" and None leave that."""
    return replace(
        study,
        metric=metric or study.metric,
        goal=goal or study.goal,
        threshold=study.threshold if threshold is None else threshold,
    )


# --- sweeps -------------------------------------------------------------------------------------------------


def _plans(folders: Sequence[Path], planned: Planned) -> dict[Path, Study]:
    """The sweeps that these folders are or belong to, as they were planned."""
    sweeps = dict.fromkeys(folder if is_sweep(folder) else sweep_of(folder) for folder in folders)
    plans = {sweep: planned(sweep) for sweep in sweeps if sweep is not None}
    return {sweep: plan for sweep, plan in plans.items() if plan is not None}


def _part(study: Study, folders: Sequence[Path]) -> Study:
    """The study of some of a sweep's runs: what they have in common is no key any more."""
    wanted = {folder.resolve() for folder in folders}
    runs = tuple(run for run in study.runs if run.folder.resolve() in wanted)
    if not runs:
        raise NotComparableError(f"{folders[0]} is no run of the sweep it lies in: name runs of the plan")
    first = next(run for folder in folders for run in runs if run.folder.resolve() == folder.resolve())
    points = [point for point in study.points if point.name in {run.point for run in runs}]
    baseline = next((p for p in points if p.is_baseline), None) or next(
        point for point in points if point.name == first.point
    )
    keys = []
    for key in study.keys:
        levels = tuple(one for one in key.levels if any(is_same(one, p.levels[key.name]) for p in points))
        if len(levels) > 1:
            keys.append(Key(key.name, levels, baseline.levels[key.name]))
    points = [replace(point, is_baseline=point is baseline) for point in points]
    part = replace(study, keys=tuple(keys), points=tuple(points), runs=runs, design="given", expectations=())
    return part if _is_paired(part) else _whole(part)


# --- any runs -----------------------------------------------------------------------------------------------


def _given(folders: Sequence[Path], plans: Mapping[Path, Study]) -> Gathered:
    found, copies = once(found_runs(folders, plans))
    files, settings = [one.files for one in found], with_one_seed([one.settings for one in found])
    columns = _columns(settings, [one.is_own for one in found])
    groups = _groups(columns, len(files))
    firsts = [groups.index(group) for group in dict.fromkeys(groups)]
    names = _point_names(columns, firsts, files)
    points = [
        Point(name, {key: column[at] for key, column in columns.items()}, at == firsts[0])
        for name, at in zip(names, firsts, strict=True)
    ]
    seeds = seed_names(settings)
    runs = [
        replace(one.run, point=names[group], seed=own.seed if one.run.seed is None else one.run.seed)
        for one, own, group in zip(files, settings, groups, strict=True)
    ]
    aims = {(plan.metric, plan.goal) for plan in plans.values()}
    metric, goal = next(iter(aims)) if len(aims) == 1 else ("", "max")
    study = Study(
        name=" v ".join(names[:3]) + (" …" if len(names) > 3 else ""),
        question="",
        keys=tuple(Key(key, _levels(column), column[0]) for key, column in columns.items()),
        points=tuple(points),
        runs=tuple(runs),
        metric=metric,
        goal=goal,
        seed_key=seeds[0] if seeds else "",
        not_run={one.files.run.name: one.why_never for one in found if one.why_never},
    )
    study = study if _is_paired(study) else _whole(study)
    return Gathered(
        study, [replace(one, run=run) for one, run in zip(files, runs, strict=True)], settings, copies
    )


def _columns(settings: Sequence[Settings], is_own: Sequence[bool]) -> dict[str, tuple[Scalar, ...]]:
    """The settings that make points differ, one of those that always change together. A place (a model's
    folder), command or name of which each run has its own (`is_own`: not that of a sibling) is only one
    where nothing else differs."""
    found = differing(settings)
    plain = {
        name: values
        for name, values in found.items()
        if name != COMMAND and not is_path(values) and not all(name in one.named for one in settings)
    }
    shared = {
        name: values
        for name, values in found.items()
        if name not in plain and len(_levels(list(compress(values, is_own)))) < sum(is_own)
    }
    columns: dict[tuple[int, ...], str] = {}
    for name, values in ({**plain, **shared} or found).items():
        order = _levels(values)
        pattern = tuple(next(at for at, one in enumerate(order) if is_same(one, v)) for v in values)
        columns.setdefault(pattern, name)
    return {name: found[name] for name in columns.values()}


def _levels(values: Sequence[Scalar]) -> tuple[Scalar, ...]:
    levels: list[Scalar] = []
    for value in values:
        if not any(is_same(value, level) for level in levels):
            levels.append(value)
    return tuple(levels)


def _groups(columns: dict[str, tuple[Scalar, ...]], n: int) -> list[int]:
    """For every run the number of its point, in the order of the first runs."""
    found: list[tuple[tuple[str, Scalar], ...]] = []
    groups = []
    for at in range(n):
        place = tuple((type(column[at]).__name__, column[at]) for column in columns.values())
        if place not in found:
            found.append(place)
        groups.append(found.index(place))
    return groups


def _point_names(
    columns: dict[str, tuple[Scalar, ...]], firsts: Sequence[int], files: Sequence[RunFiles]
) -> list[str]:
    """What differs (`lr=0.001`), or the folder of a point's first run where that would be long or unclear."""
    shorts = {key: Key(key, (), None).short or key for key in columns}
    shown = shorts if len(set(shorts.values())) == len(shorts) else {key: key for key in columns}
    names = [
        " ".join(f"{shown[key]}={value_text(column[at])}" for key, column in columns.items()) for at in firsts
    ]
    is_clear = len(set(names)) == len(names) and all(0 < len(name) <= _LONGEST_NAME for name in names)
    return names if is_clear else [files[at].run.name for at in firsts]


def _is_paired(study: Study) -> bool:
    """Whether every level can be compared between points that differ in nothing else."""
    cells = Cells(study, {point.name: np.zeros(1) for point in study.points}, {})
    return all(
        sides(cells, key, level).level
        for key in study.keys
        for level in key.levels
        if not is_same(level, key.baseline)
    )


def _whole(study: Study) -> Study:
    names = tuple(point.name for point in study.points)
    points = tuple(replace(point, levels={WHOLE: point.name}) for point in study.points)
    return replace(study, keys=(Key(WHOLE, names, names[0]),), points=points)
