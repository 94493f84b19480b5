"""A finished sweep checked against its own raw files: its journal, its documents, and every run in turn.

In: a sweep's folder, which may have been moved or copied. Out: what was checked, and what differs. The
report is made again from the runs' raw files and the journal (`rebuilding`) and must say what sweep.json, the
pages, points.csv and the figures say. Nothing is written in the folder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from harness.guard.file_access import SOURCE_SUFFIXES
from harness.repair.private_copy import CACHES
from harness.result_folders import JOURNAL
from harness.results.types import Discrepancy
from harness.results.verifying import schema
from harness.results.verifying.ending import FLAG, compared, read_flag, story
from harness.results.verifying.files import differing
from harness.results.verifying.fingerprints import relative_name
from harness.results.verifying.reported import is_as_written
from harness.results.verifying.run import verify_run
from harness.results.verifying.same import as_read, differences
from harness.results.verifying.schema import ListedFile, UnreadableError
from harness.results.verifying.types import Checked, NotFinishedError, found
from harness.sweep.ending import flag_of
from harness.sweep.events import SWEEP
from harness.sweep.folder import SweepFolder
from harness.sweep.rebuilding import RESULT, check_report, without_secrets
from harness.sweep.state import RunState, SweepState, fold

_CODE = "snapshot/code"
_OWN_FOLDERS = ("jobs", _CODE)
"""What the harness processes printed, and the frozen code, which is checked file by file."""


def verify_sweep(folder: Path) -> Checked:
    """Check a finished sweep and its runs. Raises NotFinishedError for a folder without a finish.flag."""
    with without_secrets():
        return _verified(folder.resolve())


def _verified(folder: Path) -> Checked:
    try:
        flag, listed, wrong = read_flag(folder, JOURNAL)
    except FileNotFoundError:
        raise NotFinishedError(
            f"{folder} has no {FLAG}: the sweep has not ended, and there is nothing to hold it to yet. "
            f"`harness resume {folder}` goes on with it"
        ) from None
    checked = Checked()
    state = story(folder / JOURNAL, fold, wrong, SWEEP)
    if state is not None:
        wrong += compared(flag, flag_of(state)) if flag is not None else ()
        wrong += _plan(folder, state)
        checked = _runs(folder, state)
    documents, own = _reported(folder, state)
    known = {FLAG, RESULT, JOURNAL, *(item.path for item in listed), *documents}
    runs = tuple(run.run.name for run in state.all_runs if run.job) if state is not None else ()
    code = _frozen_code(folder)
    strangers = _unlisted(folder, known, (*_OWN_FOLDERS, *runs))
    total = Checked(tuple(wrong)) + own + code + Checked(tuple(strangers)) + checked
    own_files = [name for name in known if name.partition("/")[0] not in runs]
    return replace(total, files=total.files + len(own_files))


def _unlisted(folder: Path, known: Collection[str], left_out: Collection[str]) -> Iterator[Discrepancy]:
    """Files and links that nothing accounts for; `left_out`: folders that are checked by themselves."""
    for place, folders, names in os.walk(folder):
        here = Path(place)
        links = [name for name in folders if (here / name).is_symlink()]
        folders[:] = sorted(name for name in folders if relative_name(here / name, folder) not in left_out)
        for path in (here / name for name in sorted((*names, *links))):
            name = relative_name(path, folder)
            if name not in known and _is_file_or_link(path):
                yield Discrepancy(name, "nothing accounts for this file: it was put there after the end")


def _is_file_or_link(path: Path) -> bool:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False  # gone since the folder was listed: `differing` tells, if it should be there
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


# --- plan and runs ------------------------------------------------------------------------------------------


def _plan(folder: Path, state: SweepState) -> tuple[Discrepancy, ...]:
    """plan.json must be the plan that the journal was begun with."""
    assert state.plan is not None
    name = SweepFolder(folder).plan.name
    try:
        _, plan = schema.read_object(folder / name)
    except (UnreadableError, OSError):
        return ()  # the manifest tells
    differ = differences(plan, as_read(state.plan.as_json()), "")
    return found(
        (f"{name}, {place}", why.replace("the runs give", "the journal has")) for place, why in differ
    )


def _runs(folder: Path, state: SweepState) -> Checked:
    """Every run that came to an end, each as a run of its own."""
    total = Checked()
    for run in state.all_runs:
        name = run.run.name
        if not _is_name(name):
            total += Checked(found([(JOURNAL, f"{name[:80]!r} is no name of a run's folder")]))
            continue
        try:
            total += verify_run(folder / name).below(name)
            total += Checked(_outcome(folder / name, run))
        except NotFinishedError:
            if run.outcome not in ("", "lost", "cannot_run", "cancelled"):
                total += Checked(found([(f"{name}/{FLAG}", f"the file is gone, and the run {run.outcome}")]))
    return total


def _outcome(result_dir: Path, run: RunState) -> tuple[Discrepancy, ...]:
    """The run's own end must be the one that the sweep's journal tells."""
    try:
        _, flag = schema.read_object(result_dir / FLAG)
    except (UnreadableError, OSError):
        return ()  # the run's own check tells
    if flag.get("outcome") == run.outcome:
        return ()
    told = f"it says {str(flag.get('outcome'))[:40]!r}, the sweep's journal {run.outcome or run.status!r}"
    return found([(f"{run.run.name}/{FLAG}", told)])


def _is_name(name: str) -> bool:
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


# --- documents ----------------------------------------------------------------------------------------------


def _reported(folder: Path, state: SweepState | None) -> tuple[set[str], Checked]:
    """sweep.json, the documents it vouches for, and the report made again; the names of the documents."""
    try:
        text, result = schema.read_object(folder / RESULT)
    except FileNotFoundError:
        return set(), Checked(found([(RESULT, "the file is gone; `harness report` builds it again")]))
    except UnreadableError as error:
        return set(), Checked(found([(RESULT, str(error))]))
    wrong: list[Discrepancy] = []
    documents: list[ListedFile] = []
    if not is_as_written(text, result):
        wrong += found([(RESULT, "it is not as it was written: its checksum does not agree with the rest")])
    try:
        documents = schema.listed_files(result.get("documents"))
    except UnreadableError as error:
        wrong += found([(f"{RESULT}, documents", str(error))])
    wrong += differing(folder, documents, "the report was built")
    listed = {item.path for item in documents}
    own = Checked(tuple(wrong))
    if state is None or not all(_is_name(run.run.name) for run in state.all_runs):
        return listed, own
    return listed, own + check_report(folder, state, result, listed)


def _frozen_code(folder: Path) -> Checked:
    """The code that all runs shared, file by file, against what was written down when it was frozen."""
    try:
        _, inventory = schema.read_object(folder / "snapshot" / "files.json")
        listed = schema.listed_files(
            [
                {"path": name, "sha256": entry.get("sha256"), "bytes": entry.get("size")}
                for name, entry in inventory.items()
                if isinstance(entry, dict)
            ]
        )
    except FileNotFoundError:
        return Checked()  # the manifest tells, where there was one
    except UnreadableError as error:
        return Checked(found([("snapshot/files.json", str(error))]))
    differ = (*differing(folder / _CODE, listed, "it was frozen for all runs"), *_added_code(folder, listed))
    wrong = found((f"{_CODE}/{item.where}", item.what) for item in differ)
    return Checked(wrong, files=len(listed))


def _added_code(folder: Path, listed: Collection[ListedFile]) -> Iterator[Discrepancy]:
    """Sources that lie where a run would have taken them for code. Trainings write beside their code, so
    other files, and folders of their own, are none of ours."""
    frozen = {item.path for item in listed}
    places = {str(Path(name).parent) for name in frozen} | {"."}
    root = folder / _CODE
    for place, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in CACHES)
        for path in (Path(place) / name for name in sorted(names)):
            name = relative_name(path, root)
            is_code = str(Path(name).parent) in places or path.name == "__init__.py"
            if name not in frozen and is_code and path.suffix.lower() in SOURCE_SUFFIXES:
                yield Discrepancy(
                    name, "it is no part of the frozen code: a run or somebody else put it there"
                )
