"""The runs in any folders, with their settings, and each experiment once.

In: folders of runs and of sweeps, and the sweeps' plans. Out: `FoundRun`s, and which folders are copies.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.result_folders import is_sweep
from harness.results.comparing.runs import NEVER_STARTED, RunFiles, read_files
from harness.results.comparing.settings import Settings, settings_of
from harness.results.comparing.types import NotComparableError, PlannedRun, Study


@dataclass(frozen=True)
class FoundRun:
    """A run and its settings. `sibling`: what runs of the same point of a sweep share, "" for others;
    `why_never`: why it was never started, where a sweep tells."""

    files: RunFiles
    settings: Settings
    sibling: str
    why_never: str

    @property
    def is_own(self) -> bool:
        """Whether its settings are known from the run itself."""
        return bool(self.files.record.attempts) or not self.sibling


def found_runs(folders: Sequence[Path], plans: Mapping[Path, Study]) -> list[FoundRun]:
    """The runs in these folders.

    A run of a sweep that was never started has the settings of its siblings; where none of them was started
    either, that point is left out: nobody knows its settings.
    """
    planned: dict[Path, tuple[PlannedRun, str, str]] = {}
    for folder in folders:
        if is_sweep(folder):
            study = plan_of(folder, plans)
            for run in study.runs:
                why = study.not_run.get(run.name, "")
                planned[run.folder.resolve()] = (run, f"{folder.resolve()}/{run.point}", why)
        else:
            run = PlannedRun(folder.resolve().name, "", None, folder)
            planned.setdefault(folder.resolve(), (run, "", ""))
    seed_keys = {study.seed_key for study in plans.values()}
    names = _unique(list(planned))
    found = []
    for name, (run, sibling, why) in zip(names, planned.values(), strict=True):
        files = read_files(replace(run, name=name))
        if files.outcome == NEVER_STARTED and not sibling:
            raise NotComparableError(
                f"{run.folder} holds no run: give result folders of `harness run`, or the folder of a sweep"
            )
        found.append(FoundRun(files, settings_of(files, seed_keys), sibling, why))
    started = {one.sibling: one.settings for one in found if one.files.record.attempts and one.sibling}
    return [
        one if one.is_own else replace(one, settings=started[one.sibling])
        for one in found
        if one.is_own or one.sibling in started
    ]


def plan_of(sweep: Path, plans: Mapping[Path, Study]) -> Study:
    """The plan of a sweep. Raises NotComparableError where nobody knows it."""
    if sweep not in plans:
        raise NotComparableError(f"{sweep}: the journal of this sweep does not hold its plan")
    return plans[sweep]


def once(found: Sequence[FoundRun]) -> tuple[list[FoundRun], tuple[str, ...]]:
    """Each experiment once, and what is left out: its first folder stands for it, or the first one in which
    it came to an end."""
    kept: dict[str, FoundRun] = {}
    for one in found:
        name = _experiment(one.files)
        if name not in kept or (one.files.may_count and not kept[name].files.may_count):
            kept[name] = one
    copies = [(one, kept[_experiment(one.files)]) for one in found]
    return [one for one, original in copies if one is original], tuple(
        f"{one.files.run.name}: a copy of {original.files.run.name}, the same run counts once"
        for one, original in copies
        if one is not original
    )


def _experiment(files: RunFiles) -> str:
    """What copies of a run share: its experiment's id, or its journal; the folder where it has neither."""
    if files.summary.experiment_id:
        return files.summary.experiment_id
    journal = files.run.folder / "journal.jsonl"
    content = journal.read_bytes() if journal.is_file() else b""
    return hashlib.sha256(content).hexdigest() if content else str(files.run.folder.resolve())


def _unique(paths: Sequence[Path]) -> list[str]:
    """Folder names, with as many of the folders above them as tell them apart."""
    names = []
    for path in paths:
        depth = 1
        while sum(other.parts[-depth:] == path.parts[-depth:] for other in paths) > 1:
            depth += 1
        names.append("/".join(path.parts[-depth:]))
    return names
