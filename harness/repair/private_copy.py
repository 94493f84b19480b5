"""Makes a private copy of the author's code as it is now, and remembers where it is.

In: the plan's codebase, which must lie in a git repository. Out: a detached git worktree,
`$XDG_CACHE_HOME/harness/worktrees/<experiment id>`, and `<experiment id>.json` beside it once it is
complete. Files are copied from the author's working tree, not checked out: so changes that are not committed
are in the copy, nothing of the author's (index, branches, stashes) is touched, and no hook or filter that a
repository brings along is run.

What is no code is linked instead of copied, so that relative paths to it still work: whatever git ignores
(data, checkpoints, virtual environments; caches are left out), submodules and nested repositories, the
result folder, and untracked files or folders of more than LARGEST_COPIED bytes.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.atomic_write import write_json

LARGEST_COPIED = 50 << 20
MOST_FILES_COPIED = 10_000  # of one untracked folder
_GIT_TIMEOUT_S = 300.0
CACHES = {"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox", ".nox", ".hypothesis"}
_QUIET = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.allow=never",
)
_GIT_VARIABLES = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "LC_ALL": "C",
}


class CopyError(Exception):
    """There can be no private copy of this code; the message says why and what would do."""


@dataclass(frozen=True)
class AppliedPatch:
    """One correction made in the copy. `diff`: what it changed."""

    path: str
    old: str
    new: str
    diff: str


@dataclass(frozen=True)
class PrivateCopy:
    """A complete copy. `source`: the author's repository; `prefix`: where in it the codebase lies; `notes`:
    what was linked for its size."""

    root: Path
    source: Path
    prefix: str
    notes: tuple[str, ...] = ()
    patches: tuple[AppliedPatch, ...] = ()

    @property
    def codebase(self) -> Path:
        return self.root / self.prefix

    def save(self) -> None:
        """Remember the copy; from now on it counts as complete."""
        record = {**asdict(self), "root": str(self.root), "source": str(self.source)}
        write_json(_record_of(self.root), record, mode=0o600)


def place_of(experiment_id: str) -> Path:
    """Where the copy of an experiment is, or would be."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    cache = Path(given) if given.startswith("/") else Path.home() / ".cache"
    return cache / "harness" / "worktrees" / experiment_id


def find(experiment_id: str) -> PrivateCopy | None:
    """The complete copy of an experiment; None when there is none, or only half of one."""
    root = place_of(experiment_id)
    try:
        record = json.loads(_record_of(root).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    if not root.is_dir():
        return None
    patches = tuple(AppliedPatch(**patch) for patch in record["patches"])
    return PrivateCopy(root, Path(record["source"]), record["prefix"], tuple(record["notes"]), patches)


def make(plan: Mapping[str, Any], experiment_id: str) -> PrivateCopy:
    """A fresh copy of the codebase as it is now; what was left of another one is removed.

    Raises CopyError.
    """
    root, codebase = place_of(experiment_id), Path(plan["codebase_dir"])
    source, prefix = _repository(codebase)
    root.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    forget(root, source)
    _git(source, "worktree", "add", "--force", "--force", "--detach", "--no-checkout", str(root), "HEAD")
    root.chmod(0o700)
    _git(root, "read-tree", "HEAD")
    notes = fill(root, source, Path(plan.get("result_dir") or root))
    copy = PrivateCopy(root, source, prefix, tuple(notes))
    copy.save()
    return copy


def forget(root: Path, source: Path) -> None:
    """Remove a copy, complete or not, and the repository's entry for it."""
    _record_of(root).unlink(missing_ok=True)
    if source.is_dir():
        entry = run_git(source, "worktree", "remove", "--force", "--force", str(root))
        if entry.returncode == 0:
            return
    shutil.rmtree(root, ignore_errors=True)


def tracked(folder: Path) -> list[str]:
    """Files that git tracks in this folder, relative to it."""
    return list(dict.fromkeys(_names(folder, "--cached")))


def untracked(folder: Path) -> list[str]:
    """Files in this folder that git neither tracks nor ignores, relative to it."""
    return _names(folder, "--others", "--exclude-standard")


def _record_of(root: Path) -> Path:
    return root.with_name(f"{root.name}.json")


def _repository(codebase: Path) -> tuple[Path, str]:
    """The repository that a codebase lies in, and where in it."""
    if shutil.which("git") is None:
        raise CopyError("code can be patched only with git, which is not installed here")
    if not codebase.is_dir():
        raise CopyError(f"the codebase {codebase} is no folder")
    found = run_git(codebase, "rev-parse", "--show-toplevel", "--show-prefix")
    if found.returncode != 0:
        raise CopyError(
            f"code can be patched only in a git repository, and git says of the codebase: "
            f"{_last_line(found.stderr)}; repair it through the config or the environment instead"
        )
    top, prefix = os.fsdecode(found.stdout).removesuffix("\n").split("\n")
    if not codebase.resolve().is_relative_to(top):
        raise CopyError(f"the codebase lies outside of the working tree that its repository names, {top}")
    if run_git(codebase, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").returncode != 0:
        raise CopyError("the codebase's git repository has no commit yet, so no copy can be made of it")
    return Path(top), prefix.rstrip("/")


def fill(root: Path, source: Path, result_dir: Path) -> list[str]:
    """Copy or link everything that stands in the author's working tree; returns what is worth saying."""
    notes: list[str] = []
    for name in tracked(source):
        here, there = source / name, root / name
        if not os.path.lexists(here) or not _is_free(there, root):
            continue
        if here.is_dir() and not here.is_symlink():
            notes.append(f"{name} is a submodule: linked, not copied")
            _link(here, there)
        else:
            _copy_file(here, there)
    for name in _names(source, "--others", "--exclude-standard", "--directory", "--no-empty-directory"):
        here, there = source / name.rstrip("/"), root / name.rstrip("/")
        if not _is_free(there, root) or _touches(here, root):
            continue
        why = _why_linked(here)
        if why is not None:
            notes.append(f"{name} is {why}: linked, not copied")
        if why is not None or _touches(here, result_dir):
            _link(here, there)
        else:
            _copy(here, there)
    for name in _names(source, "--others", "--ignored", "--exclude-standard", "--directory"):
        here, there = source / name.rstrip("/"), root / name.rstrip("/")
        is_cache = here.name in CACHES or here.suffix in (".pyc", ".pyo")
        if not is_cache and _is_free(there, root) and not _touches(here, root):
            _link(here, there)
    return notes


def _why_linked(path: Path) -> str | None:
    """Why an untracked file or folder is not copied; None when it is."""
    if path.is_symlink() or not path.is_dir():
        size = path.lstat().st_size
        return f"{size >> 20} MB large" if size > LARGEST_COPIED else None
    if (path / "pyvenv.cfg").exists():
        return "a virtual environment"
    if (path / ".git").exists():
        return "a repository of its own"
    size = 0
    for count, file in enumerate(_files(path), start=1):
        size += file.lstat().st_size
        if file.name == "pyvenv.cfg":
            return "a folder with a virtual environment"
        if size > LARGEST_COPIED or count > MOST_FILES_COPIED:
            return f"more than {LARGEST_COPIED >> 20} MB or {MOST_FILES_COPIED} files large"
    return None


def _files(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        yield from (Path(parent, name) for name in names)


def _copy(here: Path, there: Path) -> None:
    if here.is_symlink() or not here.is_dir():
        _copy_file(here, there)
        return
    for file in _files(here):
        if not CACHES.intersection(file.relative_to(here).parts):
            _copy_file(file, there / file.relative_to(here))


def _copy_file(here: Path, there: Path) -> None:
    there.parent.mkdir(parents=True, exist_ok=True)
    if here.is_symlink() or here.is_file():  # sockets, pipes and devices are no code
        shutil.copy2(here, there, follow_symlinks=False)


def _link(here: Path, there: Path) -> None:
    there.parent.mkdir(parents=True, exist_ok=True)
    there.symlink_to(here)


def _is_free(there: Path, root: Path) -> bool:
    """Whether this path of the copy can be written: nothing is there yet, and no `..` or link leads out."""
    inside = ".." not in there.parts and there.parent.resolve().is_relative_to(root.resolve())
    return inside and not os.path.lexists(there)


def _touches(path: Path, other: Path) -> bool:
    """Whether one of the two lies in the other."""
    path, other = path.resolve(), other.resolve()
    return path == other or path in other.parents or other in path.parents


def _names(folder: Path, *which: str) -> list[str]:
    listed = os.fsdecode(_git(folder, "ls-files", "-z", *which).stdout)
    return [name for name in listed.split("\0") if name]


def _git(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    done = run_git(folder, *arguments)
    if done.returncode != 0:
        raise CopyError(f"git {arguments[0]} failed in {folder.name}: {_last_line(done.stderr)}")
    return done


def run_git(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    """Run git so that nothing a repository's own configuration names is started."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    settings = [word for setting in _QUIET for word in ("-c", setting)]
    try:
        return subprocess.run(
            ["git", *settings, *arguments],
            cwd=folder,
            env={**kept, **_GIT_VARIABLES},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CopyError(f"git {arguments[0]} took more than {_GIT_TIMEOUT_S:g} s") from error


def _last_line(text: bytes) -> str:
    return text.decode(errors="replace").strip().rpartition("\n")[2] or "nothing"
