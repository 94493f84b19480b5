"""What a model may look up while it writes: the person's files.

In: a path as the model wrote it. Out: bounded text with secrets masked. A path is judged after all its
symbolic links were followed, by the same rules as in a run (`harness.guard.file_access`).
"""

from pathlib import Path

from harness.agent import disk_access, excerpts, source_tree
from harness.agent.excerpts import NotShownError


def look(path: str, lines: int, cwd: Path) -> str:
    """The entries of a folder below `cwd`, or the first lines of a text file. Raises NotShownError."""
    root = cwd.resolve()
    if Path.home().resolve().is_relative_to(root):
        raise NotShownError(
            "the current directory is the home folder or one above it, and nothing is read there; the person "
            "can start in the folder of their project"
        )
    try:
        if path.isprintable() and (root / path).is_dir():
            folder = disk_access.resolve_folder(path, root, None)
            return excerpts.fitted("", source_tree.listing(folder, path))
        found = disk_access.resolve_reading(path, root, None)
        shown, total = excerpts.of_file(found, 1, lines)
    except NotShownError as refusal:
        if not (path.isprintable() and (root / path).exists()):
            raise NotShownError(f"there is no {path!r}; `.` lists the current directory") from refusal
        raise
    except OSError as error:
        raise NotShownError(f"{path} cannot be read: {error.strerror}") from error
    title = f"{path}: the first {len(shown)} of {total} lines"
    return excerpts.fitted(title, excerpts.numbered(shown, range(1, len(shown) + 1)))
