"""A frozen copy of the author's code as it is now, to train from while the original changes or is corrected.

In: the codebase, where the copy goes, the folder of the results. Out: `CodeCopy`. Of a git repository it is a
detached worktree with everything that git tracks or does not ignore, uncommitted changes included; of any
other folder its sources and settings. Files are copied from the author's working tree, so no hook or filter
of the repository runs and nothing of the author's is touched.

What is no code is linked, so that relative paths to it still work: what git ignores (data, checkpoints,
virtual environments), submodules, results, large files, and untracked files that look as if they held
secrets, which are named as left out. Caches are left out.
"""

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.guard.file_access import READABLE_NAMES, READABLE_SUFFIXES, SOURCE_SUFFIXES, looks_private
from harness.repair import git
from harness.repair.git import GitError

LARGEST_FILE = 50 << 20
"""Bytes of a file, and of a folder, that git does not track and that is copied."""
LARGEST_SOURCE = 1 << 20
"""Bytes of a source file that is copied where there is no repository."""
LARGEST_COPY = 2 << 30
MOST_FILES = 20_000
"""Files that are copied of a folder that git does not track, or of one that is in no repository."""
CACHES = frozenset(
    ("__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox", ".nox", ".hypothesis", ".git")
)
_DATA_IN_CODE = frozenset((".csv", ".jsonl", ".tsv", ".template"))
_MARKS = {"pyvenv.cfg": "a virtual environment", ".git": "a repository of its own"}
_QUOTED_PATH = re.compile(r"""['"](/[^'"\n]+)['"]""")


Method = Literal["git worktree", "plain copy"]


class CopyError(Exception):
    """There can be no copy of this code; the message says why and what would do."""


@dataclass(frozen=True)
class CodeCopy:
    """A copy at `root` of the folder `source`, in which the codebase lies at `prefix`; `named`: the codebase
    as the author names it. `commit`: what the working tree is based on, "" without git; `untracked`: copied
    although git does not track it; `left_out`: looks as if it held secrets, linked; `notes`: what else is
    only linked."""

    root: Path
    source: Path
    prefix: str
    named: Path
    method: Method
    commit: str = ""
    untracked: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def codebase(self) -> Path:
        """Where a training works in the copy."""
        return self.root / self.prefix

    def moved(self, text: str) -> str | None:
        """Where an absolute path into the author's code lies in the copy; None where the copy has no own
        one."""
        path = os.path.normpath(text) if ".." in Path(text).parts else text
        roots = ((str(self.named), self.codebase), (str(self.source), self.root))
        if path.startswith("/") and not any(path == root or path.startswith(f"{root}/") for root, _ in roots):
            path = os.path.realpath(path)
        for root, there in roots:
            if path != root and not path.startswith(f"{root}/"):
                continue
            place = Path(f"{there}{path.removeprefix(root)}")
            if place.exists() and place.resolve().is_relative_to(self.root.resolve()):
                return str(place) + ("/" if text.endswith("/") and not str(place).endswith("/") else "")
        return None

    def files(self) -> Iterator[Path]:
        """Its own regular files, in the order of their names; what links lead to is left out."""
        for parent, folders, names in os.walk(self.root):
            folders[:] = sorted(name for name in folders if name not in CACHES)
            paths = (Path(parent, name) for name in sorted(names) if name != ".git")
            yield from (path for path in paths if path.is_file() and not path.is_symlink())

    def links(self) -> list[str]:
        """What it only links to, relative to it."""
        found = []
        for parent, folders, names in os.walk(self.root):
            found += [Path(parent, name) for name in (*folders, *names) if Path(parent, name).is_symlink()]
        return sorted(str(path.relative_to(self.root)) for path in found)


def freeze(codebase: Path, root: Path, results: Path | None = None) -> CodeCopy:
    """Copy the codebase to `root`, which must not exist; `results`: a folder that is linked. Raises
    CopyError."""
    real = codebase.resolve()
    if not real.is_dir():
        raise CopyError(f"the codebase {codebase} is no folder: correct [exp_codebase_dir]")
    if _is_too_much(real):
        raise CopyError(
            f"the codebase is {codebase}, of which no copy is made: name the folder with the training's code "
            "under [exp_codebase_dir]"
        )
    making = _Making(root, results.resolve() if results is not None else root)
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        return making.of_repository(codebase, real) or making.of_folder(codebase, real)
    except (CopyError, GitError, OSError) as error:
        remove(root, real)
        raise CopyError(f"the code in {codebase} cannot be copied: {error}") from error


def remove(root: Path, codebase: Path) -> None:
    """Remove a copy, complete or not, and the repository's entry for it."""
    if (root / ".git").is_file() and codebase.is_dir():
        git.run(codebase, "worktree", "remove", "--force", "--force", str(root))
    shutil.rmtree(root, ignore_errors=True)


def installed_from(venv_exe: Path) -> list[str]:
    """Folders that editable installs in a virtual environment take their modules from."""
    found: list[str] = []
    for site in sorted((venv_exe.parent.parent / "lib").glob("python3*/site-packages")):
        for file in sorted([*site.glob("*.pth"), *site.glob("__editable__*.py")]):
            text = file.read_text(encoding="utf-8", errors="replace")
            if file.suffix == ".pth":
                found += [line.strip() for line in text.split("\n") if line.startswith("/")]
            else:
                found += [str(Path(name).parent) for name in _QUOTED_PATH.findall(text)]
    return found


class _Making:
    """One copy while it is being made."""

    def __init__(self, root: Path, results: Path) -> None:
        self.root, self.results = root, results
        self.untracked: list[str] = []
        self.left_out: list[str] = []
        self.notes: list[str] = []

    def of_repository(self, named: Path, codebase: Path) -> CodeCopy | None:
        """None where there is no git, no commit, or where the repository ignores the codebase."""
        source = git.repository(codebase)
        if source is None or _is_too_much(source):
            return None
        prefix = str(codebase.relative_to(source)) if codebase != source else ""
        tracked = git.names(source, "--cached")
        if (size := sum(_size(source / name) for name in tracked)) > LARGEST_COPY:
            raise CopyError(f"git tracks {size >> 20} MB in {source}: take the data out of the repository")
        git.git(
            source,
            "worktree",
            "add",
            "--force",
            "--force",
            "--detach",
            "--no-checkout",
            str(self.root),
            "HEAD",
        )
        self.root.chmod(0o700)
        git.git(self.root, "read-tree", "HEAD")
        for name in tracked:
            if (source / name).is_dir() and not (source / name).is_symlink():
                self._link(source, name, "a submodule")
            else:
                self._copy_file(source, name)
        for name in git.names(
            source, "--others", "--exclude-standard", "--directory", "--no-empty-directory"
        ):
            self._copy_untracked(source, name)
        for name in git.names(source, "--others", "--ignored", "--exclude-standard", "--directory"):
            self._link(source, name)
        if not (self.root / prefix).is_dir() or (self.root / prefix).is_symlink():
            remove(self.root, source)
            self.untracked, self.left_out, self.notes = [], [], []
            return None
        commit = os.fsdecode(git.git(source, "rev-parse", "HEAD").stdout).strip()
        return self._made(source, prefix, named, "git worktree", commit)

    def of_folder(self, named: Path, codebase: Path) -> CodeCopy:
        sources = self._sources(codebase)
        folders = {parent for path in sources for parent in path.parents if parent.is_relative_to(codebase)}
        self.root.mkdir(parents=True, mode=0o700)
        for folder in sorted({codebase, *folders}):
            for path in sorted(folder.iterdir()):
                name = str(path.relative_to(codebase))
                if path in sources:
                    self._copy_file(codebase, name)
                elif path not in folders:
                    self._link(codebase, name)
        self.notes.append(
            f"{named} is in no git repository: sources and settings of up to {LARGEST_SOURCE >> 20} MB were "
            "copied, everything else is linked"
        )
        return self._made(codebase, "", named, "plain copy")

    def _made(self, source: Path, prefix: str, named: Path, method: Method, commit: str = "") -> CodeCopy:
        lists = (tuple(self.untracked), tuple(self.left_out), tuple(self.notes))
        return CodeCopy(self.root, source, prefix, named, method, commit, *lists)

    def _sources(self, codebase: Path) -> set[Path]:
        """The files to copy of a folder without git. Raises CopyError for one that is too large to be
        code."""
        found: set[Path] = set()
        for parent, folders, names in os.walk(codebase):
            here = Path(parent)
            marks = (*_MARKS, "journal.jsonl", "sweep.jsonl")
            folders[:] = [
                name
                for name in folders
                if name not in CACHES
                and here / name != self.results
                and not any((here / name / mark).exists() for mark in marks)
            ]
            found |= {path for path in (here / name for name in names) if self._is_source(codebase, path)}
            if len(found) > MOST_FILES:
                raise CopyError(
                    f"{codebase} holds more than {MOST_FILES} source files: run `git init` there with a "
                    ".gitignore for what is no code, or name a smaller folder under [exp_codebase_dir]"
                )
        return found

    def _is_source(self, codebase: Path, path: Path) -> bool:
        is_named = path.suffix.lower() in READABLE_SUFFIXES | _DATA_IN_CODE or path.name in READABLE_NAMES
        if not path.is_symlink() and path.is_file() and _looks_secret(path):
            self.left_out.append(str(path.relative_to(codebase)))
            return False
        return is_named and not path.is_symlink() and path.is_file() and _size(path) <= LARGEST_SOURCE

    def _copy_untracked(self, source: Path, name: str) -> None:
        """Copy a file or folder that git neither tracks nor ignores, or link it where it is no code."""
        here = source / name.rstrip("/")
        if _touches(here, self.results) or _touches(here, self.root):
            self._link(source, name)
        elif (why := _why_linked(here)) is not None:
            self._link(source, name, why)
        else:
            for path in _files(here):
                inner = str(path.relative_to(source))
                if _looks_secret(path):
                    self.left_out.append(inner)
                    self._link(source, inner)
                elif not CACHES.intersection(path.relative_to(source).parts):
                    self._copy_file(source, inner)
                    self.untracked.append(inner)

    def _copy_file(self, source: Path, name: str) -> None:
        here, there = source / name, self.root / name
        if self._is_free(there) and (here.is_symlink() or here.is_file()):  # pipes and devices are no code
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(here, there, follow_symlinks=False)

    def _link(self, source: Path, name: str, why: str = "") -> None:
        here, there = source / name.rstrip("/"), self.root / name.rstrip("/")
        is_cache = here.name in CACHES or here.suffix in (".pyc", ".pyo")
        if is_cache or not self._is_free(there) or self.root.resolve().is_relative_to(here.resolve()):
            return
        if why:
            self.notes.append(f"{name} is {why}: linked, not copied")
        there.parent.mkdir(parents=True, exist_ok=True)
        there.symlink_to(here)

    def _is_free(self, there: Path) -> bool:
        """True if this path of the copy can be written: nothing is there yet, and no `..` or link leads
        out."""
        inside = ".." not in there.parts and there.parent.resolve().is_relative_to(self.root.resolve())
        return inside and not os.path.lexists(there)


def _why_linked(path: Path) -> str | None:
    """Why an untracked file or folder is no code; None when it is copied."""
    size, is_folder = 0, path.is_dir() and not path.is_symlink()
    for count, file in enumerate(_files(path), start=1):
        size += _size(file)
        for mark, what in _MARKS.items():
            if is_folder and (file.parent / mark).exists():
                return what if file.parent == path else f"a folder with {what}"
        if size > LARGEST_FILE or count > MOST_FILES:
            return f"more than {LARGEST_FILE >> 20} MB or {MOST_FILES} files large"
    return None


def _looks_secret(path: Path) -> bool:
    """True for names as `.env` or `api_key.json`; a hidden name alone is none, nor is source code."""
    is_source = path.suffix.lower() in SOURCE_SUFFIXES
    return not is_source and (path.name.startswith(".env") or looks_private(path.name.lstrip(".")))


def _files(path: Path) -> Iterator[Path]:
    if path.is_symlink() or not path.is_dir():
        yield path
    for parent, _, names in os.walk(path):
        yield from (Path(parent, name) for name in names)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _touches(path: Path, other: Path) -> bool:
    """True if one of the two lies in the other."""
    path, other = path.resolve(), other.resolve()
    return path == other or path in other.parents or other in path.parents


def _is_too_much(folder: Path) -> bool:
    home = Path.home().resolve()
    return folder == home or folder in home.parents or folder == Path(folder.anchor)
