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
from dataclasses import dataclass, field, replace
from itertools import islice
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
_NO_CODE = ("pyvenv.cfg", ".git", "journal.jsonl", "sweep.jsonl")
"""What marks a virtual environment, another repository, or results."""
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
    results = results.resolve() if results is not None else root
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        return _of_repository(codebase, real, root, results) or _of_folder(codebase, real, root, results)
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


@dataclass
class _Inventory:
    """What to do with the names in a folder. `linked`: with the reason, "" where it needs no word."""

    copied: list[str] = field(default_factory=list)
    linked: dict[str, str] = field(default_factory=dict)
    untracked: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def carry_out(self, source: Path, root: Path) -> None:
        """Copy and link; only what is not there yet, and never by way of a link out of the copy."""
        for name in self.copied:
            here, there = source / name, root / name
            if (here.is_symlink() or here.is_file()) and _is_free(there, root):  # no pipes, no devices
                there.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(here, there, follow_symlinks=False)
        for name in self.linked:
            here, there = source / name, root / name
            is_cache = here.name in CACHES or here.suffix in (".pyc", ".pyo")
            holds_copy = root.resolve().is_relative_to(here.resolve())
            if not is_cache and not holds_copy and _is_free(there, root):
                there.parent.mkdir(parents=True, exist_ok=True)
                there.symlink_to(here)

    def made(self, root: Path, source: Path, prefix: str, named: Path, commit: str) -> CodeCopy:
        notes = tuple(f"{name} is {why}: linked, not copied" for name, why in self.linked.items() if why)
        lists = (tuple(self.untracked), tuple(self.left_out), notes)
        method: Method = "git worktree" if commit else "plain copy"
        return CodeCopy(root, source, prefix, named, method, commit, *lists)


def _of_repository(named: Path, codebase: Path, root: Path, results: Path) -> CodeCopy | None:
    """None where there is no git, no commit, or where the repository ignores the codebase."""
    source = git.repository(codebase)
    if source is None or _is_too_much(source):
        return None
    found, prefix = _Inventory(), str(codebase.relative_to(source)) if codebase != source else ""
    for name in git.names(source, "--cached"):
        is_submodule = (source / name).is_dir() and not (source / name).is_symlink()
        found.linked.update({name: "a submodule"} if is_submodule else {})
        found.copied += [] if is_submodule else [name]
    if (size := sum(_size(source / name) for name in found.copied)) > LARGEST_COPY:
        raise CopyError(f"git tracks {size >> 20} MB in {source}: take the data out of the repository")
    plain = ("--exclude-standard", "--directory")
    for name in git.names(source, "--others", "--no-empty-directory", *plain):
        _add_untracked(found, source, name.rstrip("/"), results, root)
    ignored = [name.rstrip("/") for name in git.names(source, "--others", "--ignored", *plain)]
    found.linked |= dict.fromkeys(ignored, "")
    add = ("worktree", "add", "--force", "--force", "--detach", "--no-checkout")
    git.git(source, *add, str(root), "HEAD")
    root.chmod(0o700)
    git.git(root, "read-tree", "HEAD")
    found.carry_out(source, root)
    if not (root / prefix).is_dir() or (root / prefix).is_symlink():
        remove(root, source)
        return None
    commit = os.fsdecode(git.git(source, "rev-parse", "HEAD").stdout).strip()
    return found.made(root, source, prefix, named, commit)


def _add_untracked(found: _Inventory, source: Path, name: str, results: Path, root: Path) -> None:
    """A file or folder that git neither tracks nor ignores."""
    here = source / name
    if _touches(here, results) or _touches(here, root):
        found.linked[name] = ""
        return
    files = list(islice(_files(here), MOST_FILES + 1))
    if sum(map(_size, files)) > LARGEST_FILE or len(files) > MOST_FILES:
        found.linked[name] = f"more than {LARGEST_FILE >> 20} MB or {MOST_FILES} files large"
        return
    for inner in (str(path.relative_to(source)) for path in files):
        if _looks_secret(source / inner):
            found.left_out.append(inner)
            found.linked[inner] = ""
        else:
            found.copied.append(inner)
            found.untracked.append(inner)


def _of_folder(named: Path, codebase: Path, root: Path, results: Path) -> CodeCopy:
    """A copy of a folder without git. Raises CopyError where it is too large to be code."""
    found = _Inventory()
    root.mkdir(parents=True, mode=0o700)
    for parent, folders, names in os.walk(codebase):
        here = Path(parent)
        for name in list(folders):
            path = here / name
            is_marked = any((path / mark).exists() for mark in _NO_CODE)
            if name in CACHES or path in (results, root) or path.is_symlink() or is_marked:
                folders.remove(name)
                names.append(name)
        for path in (here / name for name in names):
            _add_plain(found, path, str(path.relative_to(codebase)))
        if len(found.copied) > MOST_FILES:
            raise CopyError(
                f"{codebase} holds more than {MOST_FILES} source files: run `git init` there with a "
                ".gitignore for what is no code, or name a smaller folder under [exp_codebase_dir]"
            )
    found.linked = _joined(found, codebase)
    found.carry_out(codebase, root)
    made = found.made(root, codebase, "", named, "")
    note = (
        f"{named} is in no git repository: sources and settings of up to {LARGEST_SOURCE >> 20} MB were "
        "copied, everything else is linked"
    )
    return replace(made, notes=(*made.notes, note))


def _add_plain(found: _Inventory, path: Path, name: str) -> None:
    is_code = path.suffix.lower() in READABLE_SUFFIXES | _DATA_IN_CODE or path.name in READABLE_NAMES
    is_file = path.is_file() and not path.is_symlink()
    if is_file and _looks_secret(path):
        found.left_out.append(name)
    elif is_file and is_code and _size(path) <= LARGEST_SOURCE:
        found.copied.append(name)
        return
    found.linked[name] = ""


def _joined(found: _Inventory, codebase: Path) -> dict[str, str]:
    """What is linked, each folder without any code as a whole."""
    folders = {parent for name in found.copied for parent in Path(name).parents}
    tops = (
        next((parent for parent in reversed(Path(name).parents) if parent not in folders), Path(name))
        for name in found.linked
    )
    return dict.fromkeys(map(str, tops), "")


def _is_free(there: Path, root: Path) -> bool:
    """True if this path of the copy can be written: nothing is there yet, and no `..` or link leads out."""
    inside = ".." not in there.parts and there.parent.resolve().is_relative_to(root.resolve())
    return inside and not os.path.lexists(there)


def _looks_secret(path: Path) -> bool:
    """True for names as `.env` or `api_key.json`; a hidden name alone is none, nor is source code."""
    is_source = path.suffix.lower() in SOURCE_SUFFIXES
    return not is_source and (path.name.startswith(".env") or looks_private(path.name.lstrip(".")))


def _files(path: Path) -> Iterator[Path]:
    """The file, or the files of a folder without its caches."""
    if path.is_symlink() or not path.is_dir():
        yield path
    for parent, folders, names in os.walk(path):
        folders[:] = [name for name in folders if name not in CACHES]
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
