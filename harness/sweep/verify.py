"""A finished sweep checked against its raw files: its own as `results.verify` checks a folder, every run in
turn as a run of its own, and the frozen code that all of them shared.

In: a sweep's folder, which may have been moved or copied. Out: what was checked, and what differs.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.codec import encode
from harness.guard.file_access import SOURCE_SUFFIXES
from harness.index import JOURNAL
from harness.results.content import is_inside, read_text, regular_and_other, tree_differences
from harness.results.manifest import SKIPPED_FOLDERS, relative_name, sha256
from harness.results.types import Discrepancy
from harness.results.verify import FLAG, Checked, Kind, NotFinishedError, verify_folder, verify_run
from harness.sweep.plan import SweepFolder
from harness.sweep.reporting import build, sweep_flag
from harness.sweep.state import SWEEP, SweepState, fold

_CODE = "snapshot/code"
_NO_END = ("", "lost", "cannot_run", "cancelled")


def verify_sweep(folder: Path) -> Checked:
    """Check a finished sweep and its runs. Raises NotFinishedError for a folder without a finish.flag."""
    checked, state = verify_folder(folder, FINISHED)
    checked += _frozen_code(folder)
    return checked if state is None else checked + _plan(folder, state) + _runs(folder, state)


def _apart(state: SweepState) -> tuple[str, ...]:
    """Folders that are checked by themselves, and what harness processes printed, which holds no number."""
    return ("jobs", _CODE, *(name for name, run in state.runs.items() if run.job))


def _rebuild(folder: Path, state: SweepState, into: Path) -> None:
    for run in state.plan.runs:
        if not is_inside(run.name) or not all(regular for _, regular in regular_and_other(folder / run.name)):
            raise ValueError(f"{run.name} is no folder of plain files")
    build(SweepFolder(folder), state, into=into)


FINISHED = Kind("sweep", JOURNAL, SWEEP, "sweep.json", fold, sweep_flag, _rebuild, _apart)


def _plan(folder: Path, state: SweepState) -> Checked:
    """plan.json must be the plan that the journal was begun with."""
    with suppress(OSError, ValueError, RecursionError):  # its fingerprint tells
        recorded = json.loads(read_text(folder / "plan.json"))
        differ = tree_differences(recorded, json.loads(json.dumps(encode(state.plan))))
        what = "it is not the plan that the journal was begun with"
        return Checked(tuple(Discrepancy(f"plan.json, {place}"[:300], what) for place, _, _ in differ))
    return Checked()


def _runs(folder: Path, state: SweepState) -> Checked:
    """Every run that came to an end, each as a run of its own; its end must be the one in the journal."""
    total = Checked()
    for name, run in state.runs.items():
        wrong = ""
        try:
            if not is_inside(name):
                raise ValueError(f"{name[:80]!r} is no name of a run's folder")
            total += verify_run(folder / name).below(name)
            outcome = json.loads(read_text(folder / name / FLAG)).get("outcome")
            if outcome != run.outcome:
                wrong = f"it says {str(outcome)[:40]!r}, the sweep's journal {run.outcome or run.status!r}"
        except NotFinishedError:
            if run.outcome not in _NO_END:
                wrong = f"the file is gone, and the run {run.outcome}"
        except (OSError, ValueError, AttributeError, RecursionError) as error:
            wrong = f"it cannot be read: {error}"[:200]
        if wrong:
            total += Checked((Discrepancy(f"{name}/{FLAG}", wrong),))
    return total


def _frozen_code(folder: Path) -> Checked:
    """The code that all runs shared, file by file, as it was frozen."""
    try:
        frozen: dict[str, Any] = json.loads(read_text(folder / "snapshot" / "files.json"))
        digests = {name: str(digest) for name, digest in frozen.items() if is_inside(name)}
    except FileNotFoundError:
        return Checked()  # the manifest tells, where there was one
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        return Checked((Discrepancy("snapshot/files.json", f"it cannot be read: {error}"[:200]),))
    found = [Discrepancy(f"{_CODE}/{name}", what) for name, what in _differing(folder / _CODE, digests)]
    return Checked(tuple(found), files=len(digests))


def _differing(root: Path, digests: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Files that are gone or changed, and sources that lie where a run would have taken them for code.
    Trainings write beside their code, so other files are none of ours."""
    for name, digest in digests.items():
        path = root / name
        if not os.path.lexists(path):
            yield name, "the file is gone"
        elif path.is_symlink() or not path.is_file() or sha256(path) != digest:
            yield name, "the file has changed since it was frozen for all runs"
    places = {str(Path(name).parent) for name in digests} | {"."}
    for place, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
        for path in (Path(place) / name for name in sorted(names)):
            name = relative_name(path, root)
            is_code = str(Path(name).parent) in places or path.name == "__init__.py"
            if name not in digests and is_code and path.suffix.lower() in SOURCE_SUFFIXES:
                yield name, "it is no part of the frozen code: it was put there later"
