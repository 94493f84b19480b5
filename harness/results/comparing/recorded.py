"""What finished runs were told to do, held against each other: any result folders as a study.

In: folders of runs and of sweeps. Out: a study and its runs' files. A run's settings are those of
its first config (before any repair), of its launch command and of its code. Runs that differ in nothing but
the seed are one point; settings that differ are keys, and the first folder's point is the baseline. Runs of
which no two differ in one key alone are refused: nothing could be attributed to one of the keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness.command import is_output, read_or_empty
from harness.config.values import Scalar, same_value
from harness.index import is_sweep
from harness.results.comparing import provenances
from harness.results.comparing.contrasts import Cells
from harness.results.comparing.runs import NEVER_STARTED, RunFiles, read_files
from harness.results.comparing.types import Differing, Key, NotComparableError, PlannedRun, Point, Study
from harness.results.deviations import NOT_SET, flat
from harness.wording import point_label, short_labels

COMMAND = "launch command"
_NAMES = frozenset(("experiment_name", "project_name", "run_name", "exp_name"))
_CACHE = re.compile(r"cache([_-]?(dir|path|folder|root))?")
_SEED = re.compile(r"(?:.*_)?seed(?:_everything)?|pythonhashseed")  # num_seed_examples is none
_LONGEST_NAME = 60

Planned = Callable[[Path], "Study | None"]
"""The study that the sweep in a folder was planned as; None where its journal does not hold the plan."""
Settings = Mapping[str, Scalar]
"""Values by name: a dotted config key, `arg:--flag`, `env:NAME`."""


def gathered(
    folders: Sequence[Path], planned: Planned
) -> tuple[Study, list[RunFiles], list[Differing], list[str]]:
    """The study that these folders make up, with the metric and goal of the sweeps' plans where they agree;
    the files of each run; in which circumstances the runs differ; and runs that are left out, one
    sentence each.

    Raises NotComparableError for folders that hold no run, and for runs that differ in too much.
    """
    plans: dict[Path, Study] = {}
    for folder in filter(is_sweep, folders):
        plan = planned(folder)
        if plan is None:
            raise NotComparableError(f"{folder}: the journal of this sweep does not hold its plan")
        plans[folder] = plan
    files, left_out = _once(_read(folders, plans))
    recorded = [_settings(one, {plan.seed_key for plan in plans.values()}) for one in files]
    columns = _columns([settings for settings, _ in recorded])
    points = _points(columns, [one.run.name for one in files])
    seed, seeds = _seeds([found for _, found in recorded])
    files = [
        replace(one, run=replace(one.run, point=point.name, seed=number))
        for one, point, number in zip(files, points, seeds, strict=True)
    ]
    names = list(dict.fromkeys(point.name for point in points))
    goals = {(plan.metric, plan.goal, plan.metric_why) for plan in plans.values()}
    metric, goal, why = next(iter(goals)) if len(goals) == 1 else ("", None, "")
    study = Study(
        name=" v ".join(names[:3]) + (" …" if len(names) > 3 else ""),
        question="",
        keys=tuple(Key(name, _levels(values), values[0]) for name, values in columns.items()),
        points=tuple({point.name: point for point in points}.values()),
        runs=tuple(one.run for one in files),
        metric=metric,
        metric_why=why,
        goal=goal,
        seed_key=seed,
    )
    _refuse_unpaired(study)
    records = provenances.records_of({one.run.name: one.run.folder for one in files})
    return study, files, list(provenances.surroundings(records)), left_out


# --- which runs ---------------------------------------------------------------------------------------------


def _read(folders: Sequence[Path], plans: Mapping[Path, Study]) -> list[RunFiles]:
    """The files of every run in these folders, named by as much of their paths as tells them apart."""
    found: dict[Path, str] = {}
    for folder in folders:
        if folder in plans:
            never = plans[folder].not_run
            found |= {run.folder.resolve(): never.get(run.name, "") for run in plans[folder].runs}
        else:
            found.setdefault(folder.resolve(), "")
    files = []
    for path, why in found.items():
        depth = 1
        while sum(other.parts[-depth:] == path.parts[-depth:] for other in found) > 1:
            depth += 1
        one = read_files(PlannedRun("/".join(path.parts[-depth:]), "", None, path))
        if one.outcome == NEVER_STARTED and path in {folder.resolve() for folder in folders}:
            raise NotComparableError(
                f"{path} holds no run: give result folders of `harness run`, or the folder of a sweep"
            )
        files.append(replace(one, reason=one.reason or why))
    return files


def _once(files: Sequence[RunFiles]) -> tuple[list[RunFiles], list[str]]:
    """Each run that was started once (a copy has the same experiment's id), and what is left out."""
    kept: dict[str, RunFiles] = {}
    left_out = []
    for one in sorted(files, key=lambda each: not each.may_count):
        first = kept.get(one.story.state.experiment_id or str(one.run.folder))
        if not one.record.attempts:
            left_out.append(f"{one.run.name}: {one.outcome}{f': {one.reason}' if one.reason else ''}")
        elif first is not None:
            left_out.append(f"{one.run.name}: a copy of {first.run.name}, the same run counts once")
        else:
            kept[one.story.state.experiment_id or str(one.run.folder)] = one
    return [one for one in files if any(one is other for other in kept.values())], left_out


# --- settings -----------------------------------------------------------------------------------------------


def _settings(files: RunFiles, seed_keys: set[str]) -> tuple[Settings, Settings]:
    """A run's settings, without what differs by nature (its own folder, its names, where it writes); and
    apart those that are seeds, the likeliest first."""
    config = flat(files.record.attempts[0].config_text) or {}
    command = read_or_empty(files.story.command)
    settings = {
        name: _without_own_places(value, files)
        for name, value in (*config.items(), *command.values.items(), (COMMAND, command.rest))
        if not (_last(name) in _NAMES or is_output(name) or _CACHE.fullmatch(_last(name)))
    }
    seeds = [name for name, value in settings.items() if name in seed_keys or _is_seed(name, value)]
    seeds.sort(key=lambda name: (name not in seed_keys, _last(name) != "seed"))
    found = {name: settings.pop(name) for name in seeds}
    return {**settings, **provenances.code_of(files.run.folder)}, found


def _is_seed(name: str, value: Scalar) -> bool:
    return _SEED.fullmatch(_last(name)) is not None and str(value).lower() not in ("true", "false")


def _last(name: str) -> str:
    """The last part of a name, as snake_case: `seed` of `arg:--seed`, `data_seed` of `arg:--dataSeed`."""
    last = re.split(r"[.:/]", name)[-1].lstrip("-").replace("-", "_")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", last).lower()


def _without_own_places(value: Scalar, files: RunFiles) -> Scalar:
    """A value that does not name the run's own folder, nor a place elsewhere that is called like the run."""
    if not isinstance(value, str):
        return value
    value = re.sub(r"attempts/\d{2,}", "attempts/…", value.replace(str(files.run.folder), "…"))
    own = "|".join(re.escape(name) for name in (files.run.folder.name, files.story.state.name) if name)
    return re.sub(rf"(?<=/)(?:{own})(?=/|$)", "…", value)


def _seeds(runs: Sequence[Settings]) -> tuple[str, list[int | None]]:
    """The seed that makes runs another try of their point, and each run's: of those that vary the likeliest,
    "" for none. The others are no settings: a run with the same seed never counts as another try."""
    names = list(dict.fromkeys(name for one in runs for name in one))
    varying = [name for name in names if len(_levels([one.get(name) for one in runs])) > 1]
    seed = next(iter(varying or names), "")
    return seed, [_whole(one.get(seed)) for one in runs]


def _whole(value: Scalar) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _columns(runs: Sequence[Settings]) -> dict[str, list[Scalar]]:
    """The settings that differ: one value per run, `NOT_SET` where it has none."""
    names = dict.fromkeys(name for one in runs for name in one)
    columns = {name: [one.get(name, NOT_SET) for one in runs] for name in names}
    if NOT_SET in columns.get(provenances.CODE, ()):  # what a run does not record counts as equal
        del columns[provenances.CODE]
    return {name: values for name, values in columns.items() if len(_levels(values)) > 1}


def _levels(values: Sequence[Scalar]) -> tuple[Scalar, ...]:
    levels: list[Scalar] = []
    for value in values:
        if not any(same_value(value, level) for level in levels):
            levels.append(value)
    return tuple(levels)


def _points(columns: Mapping[str, Sequence[Scalar]], runs: Sequence[str]) -> list[Point]:
    """The point of each run, named by its levels; where these are long, by its first run."""
    labels = short_labels(columns)
    places = [{name: values[at] for name, values in columns.items()} for at in range(len(runs))]
    names = [point_label(place, labels) if place else "all runs" for place in places]
    if any(len(name) > _LONGEST_NAME for name in names):
        names = [runs[names.index(name)] for name in names]
    return [Point(name, place, name == names[0]) for name, place in zip(names, places, strict=True)]


def _refuse_unpaired(study: Study) -> None:
    """Raise NotComparableError unless every level can be compared between points that differ in it alone."""
    cells = Cells(study)
    if all(cells.pairs(key, level) for key in study.keys for level in key.levels):
        return
    where = {point.name: point.levels for point in study.points}
    lines = [
        provenances.differs(key.name, {run.name: where[run.point][key.name] for run in study.runs})
        for key in study.keys
    ]
    raise NotComparableError(
        f"these runs differ in more than one thing at a time, so that no difference could be attributed: "
        f"{'; '.join(lines)}. Fix: name runs that differ in one of these, or sweep over them"
    )
