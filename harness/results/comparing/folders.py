"""Any result folders as a study: which runs are one point, and what the points differ in.

In: folders of runs and of sweeps. Out: a `Study`. Some runs of one sweep are taken from its plan. Any others
are grouped by their own settings: runs that differ in nothing but the seed are one point, settings that
differ are keys, and the first folder's point is the baseline. Settings that always change together are one
key, since nobody can tell them apart, and where no two points differ in one key alone, points are compared
whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from harness.config_edit import Scalar
from harness.result_folders import is_sweep, sweep_of
from harness.results.comparing.cells import Cells, is_same, sides
from harness.results.comparing.runs import NEVER_STARTED, RunFiles, read_files
from harness.results.comparing.settings import COMMAND, Settings, differing, is_path, seed_names, settings_of
from harness.results.comparing.types import Goal, Key, NotComparableError, PlannedRun, Point, Study
from harness.results.deviations import value_text

WHOLE = "point"
"""The key of a study whose points can only be compared whole; its levels are their names."""
_LONGEST_NAME = 60


Planned = Callable[[Path], "Study | None"]
"""The study that the sweep in a folder was planned as; None where nobody can tell."""


def study_and_files(
    folders: Sequence[Path],
    planned: Planned,
    metric: str = "",
    goal: Goal | None = None,
    threshold: float | None = None,
) -> tuple[Study, list[RunFiles]]:
    """The study that these folders make up, and its runs' files in the same order.

    `metric`, `goal`, `threshold`: as asked for; "" and None leave a sweep's own in force (else "max" and
    none). Raises NotComparableError for folders that hold no run. A whole sweep by itself is compared by
    `harness.sweep.reporting`, which knows more of it.
    """
    sweeps = {sweep_of(folder) for folder in folders}
    (sweep,) = sweeps if len(sweeps) == 1 else (None,)
    if sweep is not None:
        study = _part(_of_sweep(sweep, planned), folders)
        files = [read_files(run) for run in study.runs]
    else:
        study, files = _given(_found(folders, planned))
    return as_asked(study, metric, goal, threshold), files


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


def _of_sweep(folder: Path, planned: Planned) -> Study:
    study = planned(folder)
    if study is None:
        raise NotComparableError(f"{folder}: the journal of this sweep does not hold its plan")
    return study


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
    return replace(study, keys=tuple(keys), points=tuple(points), runs=runs, design="given", expectations=())


# --- any runs -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Found:
    """A run and its settings. `sibling`: what runs of the same point of a sweep share, "" for others."""

    files: RunFiles
    settings: Settings
    sibling: str
    why_never: str


def _found(folders: Sequence[Path], planned_as: Planned) -> list[_Found]:
    """The runs in these folders, each once.

    A run of a sweep that was never started has the settings of its siblings; where none of them was started
    either, that point is left out: nobody knows its settings.
    """
    planned: dict[Path, tuple[PlannedRun, str, str]] = {}
    for folder in folders:
        if is_sweep(folder):
            study = _of_sweep(folder, planned_as)
            for run in study.runs:
                why = study.not_run.get(run.name, "")
                planned[run.folder.resolve()] = (run, f"{folder.resolve()}/{run.point}", why)
        else:
            run = PlannedRun(folder.resolve().name, "", None, folder)
            planned.setdefault(folder.resolve(), (run, "", ""))
    names = _unique([path.name for path in planned], list(planned))
    found = []
    for name, (run, sibling, why) in zip(names, planned.values(), strict=True):
        files = read_files(replace(run, name=name))
        if files.outcome == NEVER_STARTED and not sibling:
            raise NotComparableError(
                f"{run.folder} holds no run: give result folders of `harness run`, or the folder of a sweep"
            )
        found.append(_Found(files, settings_of(files), sibling, why))
    started = {one.sibling: one.settings for one in found if one.files.record.attempts and one.sibling}
    return [
        one if one.files.record.attempts or not one.sibling else replace(one, settings=started[one.sibling])
        for one in found
        if one.files.record.attempts or not one.sibling or one.sibling in started
    ]


def _given(found: list[_Found]) -> tuple[Study, list[RunFiles]]:
    files, settings = [one.files for one in found], [one.settings for one in found]
    columns = _columns(settings)
    groups = _groups(columns, len(files))
    firsts = [groups.index(group) for group in dict.fromkeys(groups)]
    names = _point_names(columns, firsts, files)
    points = [
        Point(name, {key: column[at] for key, column in columns.items()}, at == firsts[0])
        for name, at in zip(names, firsts, strict=True)
    ]
    seeds = seed_names(settings)
    runs = [
        replace(one.files.run, point=names[group], seed=_seed(one, seeds))
        for one, group in zip(found, groups, strict=True)
    ]
    study = Study(
        name=" v ".join(names[:3]) + (" …" if len(names) > 3 else ""),
        question="",
        keys=tuple(Key(key, _levels(column), column[0]) for key, column in columns.items()),
        points=tuple(points),
        runs=tuple(runs),
        seed_key=seeds[0] if seeds else "",
        not_run={one.files.run.name: one.why_never for one in found if one.why_never},
    )
    study = study if _is_paired(study) else _whole(study)
    return study, [replace(one, run=run) for one, run in zip(files, runs, strict=True)]


def _columns(settings: Sequence[Settings]) -> dict[str, tuple[Scalar, ...]]:
    """The settings that make points differ, one of those that always change together. Places (a model's
    folder) and the command itself only where nothing else differs."""
    found = differing(settings)
    plain = {n: values for n, values in found.items() if n != COMMAND and not is_path(values)}
    columns: dict[tuple[int, ...], str] = {}
    for name, values in (plain or found).items():
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


def _unique(names: Sequence[str], paths: Sequence[Path]) -> list[str]:
    """Folder names, with the folder above them where that alone tells them apart."""
    counts = Counter(names)
    return [
        name if counts[name] == 1 else f"{path.resolve().parent.name}/{name}"
        for name, path in zip(names, paths, strict=True)
    ]


def _seed(found: _Found, names: Sequence[str]) -> int | None:
    """The seed of a sweep's plan, else that of the first of these settings that is one."""
    if found.files.run.seed is not None:
        return found.files.run.seed
    seeds = found.settings.seeds
    return Settings({}, {name: seeds[name] for name in names if name in seeds}).seed


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
