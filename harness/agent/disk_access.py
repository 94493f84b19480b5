"""What files, folders and interpreters are on the disk when an action is carried out: the checks that the
guard, which reads no disk, leaves to this moment.

In: an action and the experiment's plan. Out: a refusal, or None; `resolve_reading`: the file that is read,
all symbolic links followed.
"""

import os
import stat
from pathlib import Path

from harness.actions import AnyAction, InstallPackage, PatchCode, ReadFile
from harness.agent.excerpts import NotShownError
from harness.blueprint.types import Blueprint
from harness.guard.file_access import (
    LARGEST_BYTES,
    LARGEST_SOURCE_BYTES,
    OWN_PRIVATE,
    READABLE_NAMES,
    READABLE_SUFFIXES,
    refuse_names,
    refuse_wording,
)
from harness.repair import installing


def refuse(action: AnyAction, result_dir: Path, plan: Blueprint) -> str | None:
    """Why the action cannot be carried out on this disk, or None."""
    if isinstance(action, InstallPackage):
        return installing.refuse(plan.venv_exe)
    try:
        if isinstance(action, ReadFile):
            resolve_reading(action.path, result_dir, plan.codebase_dir)
        if isinstance(action, PatchCode):
            _check_patched(action.path, plan.codebase_dir)
    except NotShownError as refusal:
        return str(refusal)
    return None


def resolve_reading(path: str, result_dir: Path, codebase_dir: Path | None) -> Path:
    """The file that `path` means, all links followed. Relative paths start at the result folder, then at the
    codebase. Raises NotShownError for a file that may not be read."""
    _raise(refuse_wording(path))
    result, codebase = result_dir.resolve(), _narrow(codebase_dir) if codebase_dir else None
    roots = [result] if codebase is None else [result, codebase]
    root = next((root for root in roots if os.path.lexists(root / path)), None)
    if root is None:
        raise NotShownError(
            f"there is no file {path} in the result folder or the codebase (of a codebase that is the home "
            "folder or a folder above it, nothing is read)"
        )
    found = _resolved(root / path, path)
    home = next((place for place in roots if found.is_relative_to(place)), None)
    if home is None or (not Path(path).is_absolute() and not found.is_relative_to(root)):
        raise NotShownError(f"{path} leads out of the result folder and the codebase; only these are read")
    asked = next((root for root in roots if Path(path).is_relative_to(root)), Path(path).anchor)
    _raise(refuse_names(path, Path(path).relative_to(asked).parts))
    _raise(refuse_names(path, found.relative_to(home).parts))
    _refuse_kind(path, found, is_result=home == result)
    return found


def _check_patched(path: str, codebase_dir: Path) -> None:
    """Raises NotShownError for a file that is none of the codebase's own."""
    codebase = _narrow(codebase_dir)
    if codebase is None:
        raise NotShownError("the codebase is the home folder or a folder above it; nothing is changed there")
    if not os.path.lexists(codebase / path):
        raise NotShownError(
            f"there is no file {path} in the codebase; only files that are there can be corrected"
        )
    if _resolved(codebase / path, path) != codebase / path:
        raise NotShownError(f"{path} goes through a symbolic link; name the file itself")
    if _size(path, codebase / path) > LARGEST_SOURCE_BYTES:
        raise NotShownError(f"{path} is too large to be corrected here")


def _raise(why: str | None) -> None:
    if why is not None:
        raise NotShownError(why)


def _narrow(codebase_dir: Path) -> Path | None:
    """The codebase, None where it is so wide that it would give away everything."""
    codebase = codebase_dir.resolve()
    return None if Path.home().resolve().is_relative_to(codebase) else codebase


def _resolved(path: Path, asked: str) -> Path:
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise NotShownError(
            f"{asked} leads nowhere: a symbolic link in it is broken or turns in circles"
        ) from error


def _refuse_kind(asked: str, found: Path, is_result: bool) -> None:
    size = _size(asked, found)
    is_in_results = is_result or any((folder / "journal.jsonl").exists() for folder in found.parents)
    if found.name in OWN_PRIVATE and is_in_results:
        raise NotShownError(f"{asked} is the harness's own record; use read_pane, search_log or read_config")
    if not is_result and found.suffix.lower() not in READABLE_SUFFIXES and found.name not in READABLE_NAMES:
        raise NotShownError(f"{asked}: of the codebase only source code, settings and plain text are read")
    if size > LARGEST_BYTES:
        raise NotShownError(f"{asked} is too large to be read here; use search_log or metrics_summary")
    try:
        with found.open("rb") as file:
            is_binary = b"\0" in file.read(8192)
    except OSError as error:
        raise NotShownError(f"{asked} cannot be read: {error.strerror}") from error
    if is_binary:
        raise NotShownError(f"{asked} is a binary file")


def _size(asked: str, found: Path) -> int:
    """The size of a plain file: anything else could block, or do something when it is opened."""
    try:
        status = found.stat()
    except OSError as error:
        raise NotShownError(f"{asked} cannot be read: {error.strerror}") from error
    if stat.S_ISDIR(status.st_mode):
        raise NotShownError(f"{asked} is a folder; name a file in it")
    if not stat.S_ISREG(status.st_mode):
        raise NotShownError(f"{asked} is a device, pipe or socket, no file")
    return status.st_size
