"""What a model may see of the person's files: folders and the first lines of text files below the current
directory.

In: a path as the model wrote it. Out: bounded text with secrets masked. A path is judged after all its
symbolic links were followed, by the same rules as in a run (`harness.guard.file_access`).
"""

from pathlib import Path

from harness.agent import disk_access, excerpts
from harness.agent.excerpts import NotShownError
from harness.guard import file_access

MOST_ENTRIES = 100


def look(path: str, lines: int, cwd: Path) -> str:
    """A folder's entries, or the first lines of a file. Raises NotShownError."""
    root = cwd.resolve()
    if Path.home().resolve().is_relative_to(root):
        raise NotShownError(
            "the current directory is the home folder or one above it, and nothing is read there; the person "
            "can start in the folder of their project"
        )
    try:
        if path.isprintable() and (root / path).is_dir():
            return _listing(path, root)
        found = disk_access.resolve_reading(path, root, None)
        shown, total = excerpts.of_file(found, 1, lines)
    except NotShownError as refusal:
        if not (path.isprintable() and (root / path).exists()):
            raise NotShownError(f"there is no {path!r}; `.` lists the current directory") from refusal
        raise
    except OSError as error:
        raise NotShownError(f"{path} cannot be read: {error.strerror}") from error
    title = f"{path}: the first {len(shown)} of {total} lines"
    return excerpts.fitted(title, excerpts.numbered(shown, 1))


def _listing(path: str, root: Path) -> str:
    folder = (root / path).resolve()
    if not folder.is_relative_to(root):
        raise NotShownError(f"{path} leads out of the current directory, and only what is below it is shown")
    if any(map(file_access.looks_private, folder.relative_to(root).parts)):
        raise NotShownError(f"{path} is hidden or looks as if it holds secrets, so it is not shown")
    entries = sorted(folder.iterdir(), key=lambda entry: (entry.is_file(), entry.name))
    shown = [entry for entry in entries if not file_access.looks_private(entry.name)]
    names = [excerpts.plain(entry.name) + ("/" if entry.is_dir() else "") for entry in shown[:MOST_ENTRIES]]
    more = [f"… {len(shown) - MOST_ENTRIES} more"] if len(shown) > MOST_ENTRIES else []
    return excerpts.fitted(f"{path}: {len(shown)} entries", [*names, *more])
