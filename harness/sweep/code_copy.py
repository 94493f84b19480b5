"""Copies the author's code as it is now into a sweep's folder, as plain files.

In: the codebase. Out: the copy, and what in it is only a link. Of a git repository everything that git does
not ignore is copied, uncommitted changes included; of any other folder the sources and settings, apart from
those that look as if they hold secrets. Data, checkpoints, virtual environments and submodules are linked, so
that relative paths to them still work; caches, `.git` and the folder of the results are left out. Nothing of
the author's is touched.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.guard.file_access import READABLE_NAMES, READABLE_SUFFIXES, SOURCE_SUFFIXES, looks_private
from harness.repair import private_copy
from harness.repair.private_copy import CACHES, CopyError
from harness.sweep.plan import SweepError

LARGEST_FILE = 1 << 20  # bytes of a file that is copied where there is no repository
LARGEST_COPY = 200 << 20  # bytes of all of them
LARGEST_REPOSITORY = 2 << 30  # bytes of all files that git tracks
MOST_ENTRIES = 200_000  # files and folders that are looked at where there is no repository
MOST_FILES = 20_000  # files that are copied there
_SMALL_DATA = frozenset((".csv", ".jsonl", ".tsv", ".template"))


@dataclass(frozen=True)
class CodeCopy:
    """A copy at `root` of the folder `source`, in which the codebase lies at `prefix`. `notes`: what was
    linked although it may be code."""

    root: Path
    source: Path
    prefix: str
    notes: tuple[str, ...]

    @property
    def codebase(self) -> Path:
        return self.root / self.prefix


def copy_code(codebase: Path, root: Path, results: Path) -> CodeCopy:
    """Copy the codebase to `root`, which must not exist yet; `results`: the folder that result folders lie
    in. Raises SweepError."""
    real = codebase.resolve()
    if not real.is_dir():
        raise SweepError(f"the codebase {codebase} is no folder: correct [exp_codebase_dir]")
    if _is_too_much(real):
        raise SweepError(
            f"the codebase is {codebase}, of which no copy is made: name the folder with the training's code "
            "under [exp_codebase_dir]"
        )
    try:
        return _of_repository(real, root, results) or _of_folder(real, root, results)
    except (CopyError, OSError) as error:
        shutil.rmtree(root, ignore_errors=True)
        raise SweepError(f"the code in {codebase} cannot be copied: {error}") from error


def files_of(root: Path) -> Iterator[Path]:
    """The regular files of a copy, in the order of their names; what links lead to is left out."""
    for parent, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in CACHES)
        for name in sorted(names):
            path = Path(parent, name)
            if not path.is_symlink() and path.is_file():
                yield path


def links_of(root: Path) -> list[str]:
    """The links of a copy, relative to it."""
    found = []
    for parent, folders, names in os.walk(root):
        found += [Path(parent, name) for name in (*folders, *names) if Path(parent, name).is_symlink()]
    return sorted(str(path.relative_to(root)) for path in found)


def _is_too_much(folder: Path) -> bool:
    home = Path.home().resolve()
    return folder == home or folder in home.parents or folder == Path(folder.anchor)


# --- a git repository ---------------------------------------------------------------------------------------


def _of_repository(codebase: Path, root: Path, results: Path) -> CodeCopy | None:
    """The copy of the repository that the codebase lies in; None where it lies in none, or where git has
    nothing to do with it."""
    found = _repository(codebase)
    if found is None:
        return None
    source, prefix = found
    size = sum(_size(source / name) for name in private_copy.tracked(source))
    if size > LARGEST_REPOSITORY:
        raise SweepError(
            f"git tracks {size >> 20} MB in {source}, and every sweep keeps a copy: take the data out of the "
            "repository, or name a codebase outside of it"
        )
    root.mkdir(parents=True)
    is_inside = results.resolve().is_relative_to(source) and results.resolve() != source
    notes = private_copy.fill(root, source, results if is_inside else root)
    copy = CodeCopy(root, source, prefix, tuple(notes))
    if copy.codebase.is_dir() and copy.codebase.resolve() == root.resolve() / prefix:
        return copy
    shutil.rmtree(root)  # the repository ignores the codebase, or it is too large to be copied whole
    return None


def _repository(codebase: Path) -> tuple[Path, str] | None:
    if shutil.which("git") is None:
        return None
    found = private_copy.run_git(codebase, "rev-parse", "--show-toplevel", "--show-prefix")
    if found.returncode != 0:
        return None
    top, prefix = os.fsdecode(found.stdout).removesuffix("\n").split("\n")
    source = Path(top)
    is_ours = codebase.is_relative_to(source) and not _is_too_much(source)
    return (source, prefix.rstrip("/")) if is_ours else None


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


# --- any other folder ---------------------------------------------------------------------------------------


def _of_folder(codebase: Path, root: Path, results: Path) -> CodeCopy:
    """The copy of a folder that is in no repository."""
    sources = _sources(codebase, results)
    root.mkdir(parents=True)
    own = {parent for path in sources for parent in path.parents if parent.is_relative_to(codebase)} | {
        codebase
    }
    for folder in sorted(own):
        (root / folder.relative_to(codebase)).mkdir(exist_ok=True)
        for path in folder.iterdir():
            if path in own or _is_left_out(path, root, results):
                continue
            there = root / path.relative_to(codebase)
            if path in sources:
                shutil.copy2(path, there)
            else:
                there.symlink_to(path)
    note = (
        f"{codebase} is no git repository: only sources and settings of up to {LARGEST_FILE >> 20} MB were "
        "copied; everything else, and what looks as if it held secrets, is linked"
    )
    return CodeCopy(root, codebase, "", (note,))


def _sources(codebase: Path, results: Path) -> set[Path]:
    """The files to copy. Raises SweepError for a folder that is too large to be code."""
    found: set[Path] = set()
    size = entries = 0
    for parent, folders, names in os.walk(codebase):
        here = Path(parent)
        folders[:] = [name for name in folders if not _is_no_code(here / name, results)]
        entries += len(folders) + len(names)
        for path in (here / name for name in names):
            if _is_source(path):
                found.add(path)
                size += _size(path)
        if entries > MOST_ENTRIES or size > LARGEST_COPY or len(found) > MOST_FILES:
            raise SweepError(
                f"{codebase} holds more than is copied for a sweep ({len(found)} source files, {size >> 20} "
                f"MB, {entries} entries so far): run `git init` there with a .gitignore for what is no code, "
                "or name a smaller folder under [exp_codebase_dir]"
            )
    return found


def _is_source(path: Path) -> bool:
    suffix = path.suffix.lower()
    is_named = suffix in READABLE_SUFFIXES | _SMALL_DATA or path.name in READABLE_NAMES
    is_secret = suffix not in SOURCE_SUFFIXES and looks_private(path.name.lstrip("."))
    is_small_file = not path.is_symlink() and path.is_file() and _size(path) <= LARGEST_FILE
    return is_named and not is_secret and is_small_file


def _is_no_code(folder: Path, results: Path) -> bool:
    """Whether a folder is left out or linked as a whole: caches, environments, results, repositories."""
    marks = ("pyvenv.cfg", ".git", "journal.jsonl", "sweep.jsonl")
    return (
        folder.name in CACHES
        or folder.name == ".git"
        or folder == results.resolve()
        or any((folder / mark).exists() for mark in marks)
    )


def _is_left_out(path: Path, root: Path, results: Path) -> bool:
    """Whether a path is neither copied nor linked: caches, git's own, and what holds the copy itself."""
    is_cache = path.name in CACHES or path.name == ".git" or path.suffix in (".pyc", ".pyo")
    return is_cache or path == results.resolve() or root.resolve().is_relative_to(path)
