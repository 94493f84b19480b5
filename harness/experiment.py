"""An experiment: its result folder on disk, its journal, and its state (the fold of the journal).

`create` turns a blueprint into a new folder; `Experiment.open` takes over an existing one. Everything that
is decided or happens goes through `record`, which is durable before it returns.
"""

import errno
import logging
import socket
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import Any

from harness import index, journal
from harness.atomic_write import copy_private
from harness.blueprint.types import Blueprint
from harness.errors import UserError
from harness.journal import RUN, Clock, Owner, Recorded
from harness.journal.events import AttemptEvent, Created, Finish, OptionsGiven
from harness.options import RunOptions
from harness.state import FOLD, ExperimentState, Outcome, fold
from monitors.files import AttemptFiles
from monitors.processes import process_table, steady_time, variable_of

_log = logging.getLogger(__name__)


class Experiment(Recorded[ExperimentState]):
    """The result folder of one run, owned by this process until `close`."""

    FILE, ORDER, FOLD = "journal.jsonl", RUN, FOLD

    @property
    def blueprint(self) -> Blueprint:
        """The blueprint as understood when the experiment was created."""
        return self.state.blueprint

    @classmethod
    def open(cls, folder: Path, clock: Clock | None = None) -> "Experiment":
        """Take over an existing folder. Raises UserError for an unfinished copy of a run."""
        ends = journal.first_and_last(folder / cls.FILE)
        if ends is not None and ends[1]["kind"] != Finish.kind:
            _check_original(folder, ends[0]["data"])
        opened = super().open(folder, clock)
        if ends is not None and ends[0]["data"].get("folder") != str(folder.resolve()):
            opened.list_in(folder.resolve())
        return opened

    def list_in(self, folder: Path) -> None:
        """Have `harness ls` and `resume --all` find the run where it was moved to."""
        state = self.state
        if not any(run.dir == folder for run in index.runs()):
            index.add(index.IndexedRun(state.experiment_id, state.name, str(folder), state.created_at))

    def attempt_files(self, number: int) -> AttemptFiles:
        known = (attempt.supervisor for attempt in self.state.attempts if attempt.number == number)
        folder, given_up = self.dir / "attempts" / f"{number:02d}", self._gave_up_files(number)
        return AttemptFiles(folder, known=next(known, None), given_up=given_up)

    def _gave_up_files(self, number: int) -> bool:
        known = self.journal.of(AttemptEvent)
        return any(seen.attempt == number and seen.event == "files_lost" for seen in known)

    def check_attempt(self, number: int) -> None:
        """Raise OSError unless the attempt's files can be read, or were given up as lost."""
        if not self._gave_up_files(number):
            self.attempt_files(number).check_readable()

    def check_place(self) -> None:
        """Raise OSError unless the result folder holds the journal that this process writes; the same journal
        in another file (its disk was away) is taken over anew."""
        path = self.journal.path
        try:
            if self.journal.is_in_place():
                return
        except FileNotFoundError:
            now = self.journal.folder_now()
            what = f"moved to {now}" if now else "not there any more"
            raise FileNotFoundError(errno.ENOENT, what, str(self.dir)) from None
        there = journal.first_and_last(path)
        if there is None or there[0]["data"].get("experiment_id") != self.state.experiment_id:
            raise FileNotFoundError(errno.ENOENT, "another run has taken its place", str(self.dir))
        before, self.journal = self.journal, journal.Journal(path, self.clock, self.ORDER)
        before.close()
        self.state = fold(self.journal.entries)

    def is_gone_for_good(self) -> bool:
        """True if what is missing was moved or deleted; a disk that is not mounted may come back."""
        return self.journal.folder_now() is not None or self.journal.is_deleted()


def _check_original(folder: Path, created: Mapping[str, Any]) -> None:
    """Raise UserError where the folder is a copy of the run: the original is still in its place."""
    original = Path(created.get("folder") or folder)
    if created.get("host") != socket.gethostname() or folder.stat().st_ino == created.get("inode"):
        return
    is_there = original.resolve() == folder.resolve()
    there = None if is_there else journal.first_and_last(original / Experiment.FILE)
    if there is not None and there[0]["data"].get("experiment_id") == created["experiment_id"]:
        raise UserError(
            f"{folder} is a copy of {original}, and what runs belongs to that one. Fix: go on with the "
            "original; if the copy is meant, stop the original and move it away first"
        )


def create(
    blueprint: Blueprint,
    options: RunOptions | None = None,
    clock: Clock = steady_time,
    text: str | None = None,
) -> Experiment:
    """A new result folder for a blueprint that can run, listed for `harness ls`. `text`: the blueprint, where
    it is in no file yet. Raises UserError when the folder of that name holds a run without an end."""
    result_dir = _new_folder(blueprint)
    experiment_id = uuid.uuid4().hex[:12]
    # before the journal begins, so that no kill hides a run that has begun
    index.add(index.IndexedRun(experiment_id, blueprint.name, str(result_dir), clock()))
    options, is_alone = options or RunOptions(), index.sweep_of(result_dir) is None
    options = options.changed(words=is_alone, smoke=options.smoke and is_alone)
    return begin(blueprint, result_dir, options, clock, experiment_id, text)


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
    if experiment.journal.entries:  # of a run that claimed the folder at the same time and is gone already
        experiment.close()
        raise _unfinished(result_dir)
    issued = result_dir / "blueprint.md"
    if text is None:
        copy_private(blueprint.path, issued)
    else:
        issued.touch(mode=0o600)
        issued.write_text(text, encoding="utf-8")
        blueprint = replace(blueprint, path=issued)
    deadline_at = clock() + blueprint.max_time_s
    identity = experiment_id or uuid.uuid4().hex[:12]
    created = Created(identity, blueprint.name, deadline_at, options.policy, blueprint)
    inode, host = result_dir.stat().st_ino, socket.gethostname()
    experiment.record(replace(created, folder=str(result_dir.resolve()), inode=inode, host=host))
    experiment.record(OptionsGiven(options))
    experiment.record(Owner.this_process(clock))
    return experiment


def _new_folder(blueprint: Blueprint) -> Path:
    """Make this run's folder: the blueprint's result folder, or the next free `-2` beside finished ones."""
    first = blueprint.result_dir
    _check_nothing_trains(first, first / blueprint.name)
    if first.is_dir() and not (first / "journal.jsonl").exists() and any(first.iterdir()):
        first = first / blueprint.name  # what is there belongs to somebody else
    if _never_started(first) and not blueprint.path.is_relative_to(first):
        _move_aside(first)
    return next(folder for folder in chain([first], _beside(first, "")) if _claim(folder))


def _check_nothing_trains(*folders: Path) -> None:
    """Raise UserError where a training runs in a folder that has no journal any more."""
    places = {entry.pid: variable_of(entry.pid, "HARNESS_ATTEMPT_DIR") for entry in process_table()}
    for folder in folders:
        own = (folder / "attempts").resolve()
        pids = [pid for pid, place in places.items() if place and Path(place).resolve().is_relative_to(own)]
        if pids and not journal.has_begun(folder / "journal.jsonl"):
            raise UserError(
                f"a training of an earlier run still runs in {folder}, although that run's journal is not "
                f"there any more. Fix: let it end, or end it (`kill {' '.join(map(str, pids))}`), and start "
                "again then"
            )


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
    """True if the folder is now ours: freshly made, or left empty by a run that died at once."""
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
        raise _unfinished(folder)
    return False


def _unfinished(folder: Path) -> UserError:
    return UserError(
        f"{folder} holds a run that has not finished: `harness resume {folder}` goes on with it, "
        f"`harness stop {folder}` ends it; a new run of the same blueprint can start after that"
    )
