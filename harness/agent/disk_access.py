"""What files, folders and interpreters are on the disk when an action is carried out: the checks that the
guard, which reads no disk, leaves to this moment.

In: an action and the experiment's plan. Out: a refusal, or None; `resolve_reading`: the file that is read,
all symbolic links followed; `resolve_folder`: the folder that is listed.
"""

import os
import stat
from pathlib import Path

from harness.actions import Action, InstallPackage, ListFiles, PatchCode, ReadFile
from harness.agent.excerpts import NotShownError
from harness.blueprint.types import Blueprint
from harness.guard.file_access import (
    LARGEST_BYTES,
    LARGEST_SOURCE_BYTES,
    OWN_PRIVATE,
    is_readable_source,
    refuse_names,
    refuse_wording,
)
from harness.repair import installing


def refuse(action: Action, result_dir: Path, plan: Blueprint) -> str | None:
    """Why the action cannot be carried out on this disk, or None."""
    if isinstance(action, InstallPackage):
        return installing.refuse(plan.venv_exe)
    if not isinstance(action, ReadFile | ListFiles | PatchCode):
        return None
    try:
        if isinstance(action, ReadFile):
            resolve_reading(action.path, result_dir, plan.codebase_dir)
        elif isinstance(action, ListFiles):
            resolve_folder(action.path, result_dir, plan.codebase_dir)
        else:
            _check_patched(action.path, plan.codebase_dir)
    except NotShownError as refusal:
        return str(refusal)
    except OSError as error:
        return f"{action.path} cannot be read: {error.strerror}"
    return None


def resolve_reading(path: str, result_dir: Path, codebase_dir: Path | None) -> Path:
    """The file that `path` means, all links followed. Relative paths start at the result folder, then at the
    codebase. Raises NotShownError for a file that may not be read, OSError for one that cannot be."""
    found = _resolved_inside(path, result_dir, codebase_dir)
    _raise(refuse_kind(found, is_result=found.is_relative_to(result_dir.resolve())), f"{path} ")
    return found


def resolve_folder(path: str, result_dir: Path, codebase_dir: Path | None) -> Path:
    """The folder that `path` means, under the same rules."""
    found = _resolved_inside(path, result_dir, codebase_dir)
    if not found.is_dir():
        raise NotShownError(f"{path} is no folder; read_file shows it")
    return found


def _resolved_inside(path: str, result_dir: Path, codebase_dir: Path | None) -> Path:
    _raise(refuse_wording(path))
    codebase = narrow(codebase_dir) if codebase_dir else None
    roots = [result_dir.resolve(), *([codebase] if codebase else [])]
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
    return found


def _check_patched(path: str, codebase_dir: Path) -> None:
    """Raises NotShownError for a file that is none of the codebase's own."""
    codebase = narrow(codebase_dir)
    if codebase is None:
        raise NotShownError("the codebase is the home folder or a folder above it; nothing is changed there")
    file = codebase / path
    if not os.path.lexists(file):
        _raise(f"there is no file {path} in the codebase; only files that are there can be corrected")
    if _resolved(file, path) != file:
        _raise(f"{path} goes through a symbolic link; name the file itself")
    _raise(_no_plain_file(file.stat()), f"{path} ")
    if file.stat().st_size > LARGEST_SOURCE_BYTES:
        _raise(f"{path} is too large to be corrected here")


def _raise(why: str | None, subject: str = "") -> None:
    if why is not None:
        raise NotShownError(f"{subject}{why}")


def narrow(codebase_dir: Path) -> Path | None:
    """The codebase, all links followed; None where it is so wide that it would give away everything."""
    codebase = codebase_dir.resolve()
    return None if Path.home().resolve().is_relative_to(codebase) else codebase


def _resolved(path: Path, asked: str) -> Path:
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError):
        why = f"{asked} leads nowhere: a symbolic link in it is broken or turns in circles"
        raise NotShownError(why) from None


def refuse_kind(found: Path, is_result: bool) -> str | None:
    """Why a file of this kind is not read, or None."""
    if why := _no_plain_file(found.stat()):
        return why
    is_in_results = is_result or any((folder / "journal.jsonl").exists() for folder in found.parents)
    if found.name in OWN_PRIVATE and is_in_results:
        return "is the harness's own record; use read_pane, search_log or read_config"
    if not is_result and not is_readable_source(found):
        return "is of another kind: of the codebase only source code, settings and plain text are read"
    if found.stat().st_size > LARGEST_BYTES:
        return "is too large to be read here; use search_log or metrics_summary"
    with found.open("rb") as file:
        return "is a binary file" if b"\0" in file.read(8192) else None


def _no_plain_file(found: os.stat_result) -> str | None:
    """Why this is no plain file: anything else could block, or do something when it is opened."""
    if stat.S_ISDIR(found.st_mode):
        return "is a folder; name a file in it"
    return None if stat.S_ISREG(found.st_mode) else "is a device, pipe or socket, no file"
