"""The author's code as a policy looks around in it: listings of folders, and a search through all of it.

What is private by its name is neither listed nor searched, and no symbolic link is followed
(`harness.guard.file_access`, `disk_access`).
"""

import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from harness import actions, index
from harness.agent import disk_access, log_search
from harness.agent.excerpts import NotShownError, fitted, masked
from harness.environment import known_secrets
from harness.experiment import Experiment
from harness.guard.file_access import LARGEST_SOURCE_BYTES, LIBRARIES, is_readable_source, looks_private

MOST_ENTRIES = 100
MOST_LOOKED_AT = 20_000  # entries of folders; a codebase that has more is not looked through to its end
MOST_MATCHES = 20
_HOME = "the codebase is the home folder or a folder above it, and nothing of it is shown"


def list_files(action: actions.ListFiles, experiment: Experiment) -> str:
    """The entries of a folder; of `.` those of the codebase and of the result folder."""
    plan, path = experiment.blueprint, action.path
    if Path(path) != Path():
        folder = disk_access.resolve_folder(path, experiment.dir, plan.codebase_dir)
        return fitted("", listing(folder, path))
    codebase = disk_access.narrow(plan.codebase_dir)
    lines = listing(codebase, "the codebase") if codebase is not None else [_HOME]
    return fitted("", [*lines, *listing(experiment.dir, "the result folder")])


def listing(folder: Path, name: str) -> list[str]:
    """A title and a line for each entry that is not private, folders first, files with their size."""
    with os.scandir(folder) as entries:
        seen = [entry for entry in islice(entries, MOST_LOOKED_AT) if not looks_private(entry.name)]
    seen.sort(key=lambda entry: (not entry.is_dir(), entry.name))
    left = [f"… {len(seen) - MOST_ENTRIES} more"] if len(seen) > MOST_ENTRIES else []
    shown = masked([f"{name}: {len(seen)} entries", *map(_entry, seen[:MOST_ENTRIES])])
    return [*shown, *left]


def _entry(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return f"{entry.name} (a link)"
    return f"{entry.name}/" if entry.is_dir() else f"{entry.name}  {_size(entry.stat().st_size)}"


def _size(count: int) -> str:
    """A number of bytes in words, such as `1.2 kB`."""
    power = next((power for power in range(3) if count < 1000 ** (power + 1)), 3)
    return f"{count / 1000**power:.1f}".removesuffix(".0") + f" {('B', 'kB', 'MB', 'GB')[power]}"


def search_code(action: actions.SearchCode, experiment: Experiment) -> str:
    """The lines of the codebase that match a pattern, by file."""
    codebase = disk_access.narrow(experiment.blueprint.codebase_dir)
    if codebase is None:
        raise NotShownError(_HOME)
    files = sorted(_sources(codebase))
    found = log_search.search(files, action.pattern, action.around, MOST_MATCHES, experiment.dir)
    known, lines = known_secrets(experiment.dir), list[str]()
    for file, one in zip(files, found, strict=True):
        if one.lines:
            lines += [*masked([str(file.relative_to(codebase))], known), *log_search.shown(one, known)]
    hits = [one.count for one in found if one.count]
    parts = [f"{sum(hits)} lines in {len(hits)} of {len(files)} files match"]
    parts += [f"the first {MOST_MATCHES} are shown"] if sum(hits) > MOST_MATCHES else []
    parts += ["found as plain text"] if any(one.literal for one in found) else []
    return fitted("; ".join(parts), lines, lambda index: "use a narrower pattern")


def _sources(root: Path) -> Iterator[Path]:
    """The readable files below a folder; libraries, virtual environments and result folders left out."""
    looked_at = 0
    for folder, folders, names in os.walk(root):
        looked_at += len(folders) + len(names)
        if looked_at > MOST_LOOKED_AT:
            return
        here = Path(folder)
        folders[:] = [name for name in folders if not _is_passed_over(here / name)]
        yield from (here / name for name in names if _is_searched(here / name))


def _is_passed_over(folder: Path) -> bool:
    is_own = looks_private(folder.name) or folder.name in (*LIBRARIES, "__pycache__")
    return is_own or (folder / "pyvenv.cfg").exists() or index.journal_of(folder).exists()


def _is_searched(file: Path) -> bool:
    if looks_private(file.name) or not is_readable_source(file):
        return False
    found = file.lstat()
    return stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST_SOURCE_BYTES
