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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from harness.errors import UserError
from harness.guard.file_access import READABLE_NAMES, READABLE_SUFFIXES, SOURCE_SUFFIXES, looks_private
from harness.repair.git import GitError, git, names, repository

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
_CODE = READABLE_SUFFIXES | {".csv", ".jsonl", ".tsv", ".template"}
_NO_CODE = ("pyvenv.cfg", ".git", "journal.jsonl", "sweep.jsonl")
"""What marks a virtual environment, another repository, or results."""
_QUOTED_PATH = re.compile(r"""['"](/[^'"\n]+)['"]""")

Contents = tuple[list[str], dict[str, str], list[str]]
"""What is copied of a folder, what is linked, with the reason ("" where it needs no word), and which of that
looks as if it held secrets."""


class CopyError(UserError):
    """There can be no copy of this code; the message says why and what would do."""


@dataclass(frozen=True)
class CodeCopy:
    """A copy at `root` of the folder `source`, in which the codebase lies at `prefix`; `named`: the codebase
    as the author names it. `commit`: what the working tree is based on, "" without git; `left_out`: looks as
    if it held secrets, linked; `notes`: what else is only linked."""

    root: Path
    source: Path
    prefix: str
    named: Path
    commit: str = ""
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def codebase(self) -> Path:
        """Where a training works in the copy."""
        return self.root / self.prefix

    def moved(self, text: str) -> str | None:
        """Where an absolute path into the author's code lies in the copy; None where the copy has no own
        one."""
        path = str(Path(text).expanduser()) if text.startswith("~/") else text
        path = os.path.normpath(path) if ".." in Path(path).parts else path
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

    def python_path(self, installed: Iterable[str], given: str) -> str:
        """The PYTHONPATH of a training in the copy, whose folders come before those of the author's that its
        interpreter has `installed` or that are `given`; "" where it needs none."""
        entries = [entry for entry in given.split(os.pathsep) if entry]
        own = [place for entry in (*installed, *entries) if (place := self.moved(entry)) is not None]
        return os.pathsep.join(dict.fromkeys((*own, *entries)))

    def files(self) -> Iterator[Path]:
        """Its own regular files, in the order of their names; what links lead to is left out."""
        for parent, folders, found in os.walk(self.root):
            folders[:] = sorted(name for name in folders if name not in CACHES)
            paths = (Path(parent, name) for name in sorted(found) if name != ".git")
            yield from (path for path in paths if path.is_file() and not path.is_symlink())

    def links(self) -> list[str]:
        """What it only links to, relative to it."""
        walked = os.walk(self.root)
        paths = (Path(parent, name) for parent, folders, found in walked for name in (*folders, *found))
        return sorted(str(path.relative_to(self.root)) for path in paths if path.is_symlink())


def freeze(codebase: Path, root: Path, results: Path | None = None) -> CodeCopy:
    """Copy the codebase to `root`, which must not exist; `results`: a folder that is linked. Raises
    CopyError."""
    real = codebase.resolve()
    if not real.is_dir() or _is_too_much(real):
        raise CopyError(
            f"of the codebase {codebase} no copy is made: name the folder with the training's code under "
            "[exp_codebase_dir]"
        )
    apart = [root.resolve(), *([results.resolve()] if results is not None else [])]
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        source = repository(real)
        if source is not None and not _is_too_much(source):
            found = _in_repository(source, apart)
            git(
                source,
                "worktree",
                "add",
                *("--force", "--force"),
                "--detach",
                "--no-checkout",
                str(root),
                "HEAD",
            )
            root.chmod(0o700)
            git(root, "read-tree", "HEAD")
            prefix = str(real.relative_to(source))
            made = _filled(found, root, source, prefix, codebase, git(source, "rev-parse", "HEAD").strip())
            if made.codebase.is_dir() and not made.codebase.is_symlink():
                return made
            remove(root, source)  # the repository ignores the codebase
        found = _in_folder(real, apart)
        root.mkdir(mode=0o700)
        return _filled(found, root, real, ".", codebase, "")
    except (CopyError, GitError, OSError) as error:
        remove(root, real)
        raise CopyError(f"the code in {codebase} cannot be copied: {error}") from error


def remove(root: Path, codebase: Path) -> None:
    """Remove a copy, complete or not, and the repository's entry for it."""
    if (root / ".git").is_file() and codebase.is_dir():
        try:
            git(codebase, "worktree", "remove", "--force", "--force", str(root))
        except GitError:
            pass  # only the entry stays, which git prunes
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


def _filled(found: Contents, root: Path, source: Path, prefix: str, named: Path, commit: str) -> CodeCopy:
    """Copy and link; only what is not there yet, and never by way of a link out of the copy."""
    copied, linked, left_out = found
    for name in (*copied, *linked):
        here, there = source / name, root / name
        inside = ".." not in there.parts and there.parent.resolve().is_relative_to(root.resolve())
        if not inside or os.path.lexists(there):
            continue
        if name in linked:
            is_cache = here.name in CACHES or here.suffix in (".pyc", ".pyo")
            if not is_cache and not root.resolve().is_relative_to(here.resolve()):
                there.parent.mkdir(parents=True, exist_ok=True)
                there.symlink_to(here)
        elif here.is_symlink() or here.is_file():  # no pipes, no devices
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(here, there, follow_symlinks=False)
    notes = [f"{name} is {why}: linked, not copied" for name, why in linked.items() if why]
    if not commit:
        notes.append(
            f"{named} is in no git repository: sources and settings of up to {LARGEST_SOURCE >> 20} MB were "
            "copied, everything else is linked"
        )
    return CodeCopy(root, source, prefix, named, commit, tuple(left_out), tuple(notes))


def _in_repository(source: Path, apart: Sequence[Path]) -> Contents:
    """What git tracks or does not ignore is copied. `apart`: results, and the copy itself."""
    linked: dict[str, str] = {}
    left_out: list[str] = []
    tracked = names(source, "--cached")
    for name in tracked:
        if (source / name).is_dir() and not (source / name).is_symlink():
            linked[name] = "a submodule"
    copied = [name for name in tracked if name not in linked]
    if (size := sum(_size(source / name) for name in copied)) > LARGEST_COPY:
        raise CopyError(f"git tracks {size >> 20} MB in {source}: take the data out of the repository")
    plain = ("--exclude-standard", "--directory")
    for name in names(source, "--others", "--no-empty-directory", *plain):
        here = source / name
        files = list(islice(_files(here), MOST_FILES + 1))
        if any(_touches(here.resolve(), other) for other in apart):
            linked[name] = ""
        elif sum(map(_size, files)) > LARGEST_FILE or len(files) > MOST_FILES:
            linked[name] = f"more than {LARGEST_FILE >> 20} MB or {MOST_FILES} files large"
        else:
            inner = [str(path.relative_to(source)) for path in files]
            left_out += [each for each in inner if _looks_secret(source / each)]
            copied += [each for each in inner if each not in left_out]
    ignored = names(source, "--others", "--ignored", *plain)
    return copied, linked | dict.fromkeys((*left_out, *ignored), ""), left_out


def _in_folder(codebase: Path, apart: Sequence[Path]) -> Contents:
    """Sources and settings are copied; of what is linked, each folder without any of them as a whole. Raises
    CopyError where it is too large to be code."""
    copied: list[str] = []
    others: list[Path] = []
    for parent, folders, files in os.walk(codebase):
        for name in list(folders):
            path = Path(parent, name)
            is_marked = any((path / mark).exists() for mark in _NO_CODE)
            if name in CACHES or path in apart or path.is_symlink() or is_marked:
                folders.remove(name)
                files.append(name)
        for path in (Path(parent, name) for name in files):
            is_code = path.suffix.lower() in _CODE or path.name in READABLE_NAMES
            is_file = path.is_file() and not path.is_symlink()
            if is_file and is_code and not _looks_secret(path) and _size(path) <= LARGEST_SOURCE:
                copied.append(str(path.relative_to(codebase)))
            else:
                others.append(path.relative_to(codebase))
        if len(copied) > MOST_FILES:
            raise CopyError(
                f"{codebase} holds more than {MOST_FILES} source files: run `git init` there with a "
                ".gitignore for what is no code, or name a smaller folder under [exp_codebase_dir]"
            )
    with_code = {parent for name in copied for parent in Path(name).parents}
    tops = [next((top for top in reversed(each.parents) if top not in with_code), each) for each in others]
    left_out = [str(each) for each in others if (codebase / each).is_file() and _looks_secret(each)]
    return copied, dict.fromkeys(map(str, tops), ""), left_out


def _looks_secret(path: Path) -> bool:
    """True for names as `.env` or `api_key.json`; a hidden name alone is none, nor is source code."""
    is_source = path.suffix.lower() in SOURCE_SUFFIXES
    return not is_source and (path.name.startswith(".env") or looks_private(path.name.lstrip(".")))


def _files(path: Path) -> Iterator[Path]:
    """The file, or the files of a folder without its caches."""
    if path.is_symlink() or not path.is_dir():
        yield path
    for parent, folders, found in os.walk(path):
        folders[:] = [name for name in folders if name not in CACHES]
        yield from (Path(parent, name) for name in found)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _touches(path: Path, other: Path) -> bool:
    """True if one of the two lies in the other."""
    return path.is_relative_to(other) or other.is_relative_to(path)


def _is_too_much(folder: Path) -> bool:
    """True for the home folder and what holds it."""
    return Path.home().resolve().is_relative_to(folder)
