"""Runs git on other people's repositories without starting anything that they bring along."""

import os
import subprocess
from pathlib import Path

_TIMEOUT_S = 300.0
_QUIET = (
    "core.hooksPath=/dev/null", "core.fsmonitor=false", "core.untrackedCache=false", "gc.auto=0",
    "submodule.recurse=false", "maintenance.auto=false", "protocol.allow=never",
)  # fmt: skip
_GIT_VARIABLES = {
    "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C",
}  # fmt: skip


class GitError(Exception):
    """Git failed; the message holds what it said."""


def repository(codebase: Path) -> Path | None:
    """The working tree that holds the codebase; None where it is in none that has a commit."""
    try:
        git(codebase, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        source = Path(git(codebase, "rev-parse", "--show-toplevel").removesuffix("\n"))
    except GitError:
        return None
    return source if codebase.is_relative_to(source) else None


def names(folder: Path, *which: str) -> list[str]:
    """What `git ls-files` with these options lists, relative to the folder. Raises GitError."""
    listed = git(folder, "ls-files", "-z", *which).split("\0")
    return list(dict.fromkeys(name.rstrip("/") for name in listed if name))


def git(folder: Path, *arguments: str) -> str:
    """What git prints, run so that nothing a repository's own configuration names is started. Raises
    GitError."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    settings = [word for setting in _QUIET for word in ("-c", setting)]
    try:
        done = subprocess.run(
            ["git", *settings, *arguments],
            cwd=folder,
            env={**kept, **_GIT_VARIABLES},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GitError(f"git {arguments[0]}: {error}") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise GitError(f"git {arguments[0]} failed in {folder.name}: {said or 'no message'}")
    return os.fsdecode(done.stdout)
