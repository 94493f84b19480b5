"""An experiment: its result folder on disk, its journal, and its state (the fold of the journal).

`create` turns a blueprint into a new folder; `Experiment.open` takes over an existing one. Everything that
is decided or happens goes through `record`, which is durable before it returns.
"""

import logging
import uuid
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, count
from pathlib import Path

from harness import index, journal
from harness.atomic_write import copy_private
from harness.blueprint.types import Blueprint
from harness.errors import UserError
from harness.journal import RUN, Clock, Owner, Recorded
from harness.journal.events import Created, OptionsGiven
from harness.options import RunOptions
from harness.state import FOLD, ExperimentState, Outcome, fold
from monitors.clock import steady_time
from monitors.files import AttemptFiles

_log = logging.getLogger(__name__)


class ExperimentUnfinishedError(UserError):
    """The result folder belongs to a run that has not ended."""

    def __init__(self, result_dir: Path) -> None:
        self.result_dir = result_dir
        super().__init__(
            f"{result_dir} holds a run that has not finished: `harness resume {result_dir}` goes on with it, "
            f"`harness stop {result_dir}` ends it; a new run of the same blueprint can start after that"
        )


class Experiment(Recorded[ExperimentState]):
    """The result folder of one run, owned by this process until `close`."""

    FILE, ORDER, FOLD = "journal.jsonl", RUN, FOLD

    @property
    def blueprint(self) -> Blueprint:
        """The blueprint as understood when the experiment was created."""
        return self.state.blueprint

    def attempt_files(self, number: int) -> AttemptFiles:
        return AttemptFiles(self.dir / "attempts" / f"{number:02d}")


def create(
    blueprint: Blueprint,
    options: RunOptions | None = None,
    clock: Clock = steady_time,
    text: str | None = None,
) -> Experiment:
    """A new result folder for a blueprint that can run, listed for `harness ls`. `text`: the blueprint, where
    it is in no file yet.

    Raises ExperimentUnfinishedError when the folder of that name holds a run without an end.
    """
    result_dir = _new_folder(blueprint)
    experiment_id = uuid.uuid4().hex[:12]
    try:  # before the journal begins, so that no kill hides a run that has begun
        index.add(index.IndexedRun(experiment_id, blueprint.name, str(result_dir), clock()))
    except OSError as error:
        _log.warning("%s will not be listed by `harness ls`: %s", result_dir, error)
    return begin(blueprint, result_dir, options or RunOptions(), clock, experiment_id, text)


def begin(
    blueprint: Blueprint,
    result_dir: Path,
    options: RunOptions,
    clock: Clock = steady_time,
    experiment_id: str = "",
    text: str | None = None,
) -> Experiment:
    """An experiment in an empty folder: the blueprint as issued, and the first entries of the journal."""
    experiment = Experiment(result_dir, clock)
    issued = result_dir / "blueprint.md"
    if text is None:
        copy_private(blueprint.path, issued)
    else:
        issued.touch(mode=0o600)
        issued.write_text(text, encoding="utf-8")
        blueprint = replace(blueprint, path=issued)
    deadline_at = clock() + blueprint.max_time_s
    identity = experiment_id or uuid.uuid4().hex[:12]
    experiment.record(Created(identity, blueprint.name, deadline_at, options.policy, blueprint))
    experiment.record(OptionsGiven(options))
    experiment.record(Owner.this_process())
    return experiment


def _new_folder(blueprint: Blueprint) -> Path:
    """Make the folder of this run: the blueprint's result folder, or the next free `-2`, `-3` … beside
    finished ones."""
    first = blueprint.result_dir
    if first.is_dir() and not (first / "journal.jsonl").exists() and any(first.iterdir()):
        first = first / blueprint.name  # what is there belongs to somebody else
    if _never_started(first) and not blueprint.path.is_relative_to(first):
        _move_aside(first)
    return next(folder for folder in chain([first], _beside(first, "")) if _claim(folder))


def _never_started(folder: Path) -> bool:
    """True if the folder holds nothing but a run that could not start."""
    path = folder / "journal.jsonl"
    if not journal.has_begun(path) or journal.is_owned(path):
        return False
    state = fold(journal.read(path))
    return state.verdict is not None and state.verdict.outcome == Outcome.CANNOT_RUN and not state.attempts


def _move_aside(folder: Path) -> None:
    """Make room for the corrected run, so that who waits for `finish.flag` there reads its own."""
    target = next(there for there in _beside(folder, "could-not-start-") if not there.exists())
    try:
        folder.rename(target)
        _log.info("%s could not start; it is now %s", folder, target)
    except OSError as error:  # the corrected run gets a folder beside it
        _log.warning("%s could not be moved aside: %s", folder, error)


def _beside(folder: Path, word: str) -> Iterator[Path]:
    return (folder.with_name(f"{folder.name}-{word}{number}") for number in count(1 if word else 2))


def _claim(folder: Path) -> bool:
    """True if the folder is now ours: freshly made, or left empty by a run that died before its first
    entry."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir()
        return True
    except FileExistsError:
        pass
    entries = journal.read(folder / "journal.jsonl")
    if not entries:
        return not journal.is_owned(folder / "journal.jsonl")
    if fold(entries).finished_at is None:
        raise ExperimentUnfinishedError(folder)
    return False
