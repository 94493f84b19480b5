"""Writing files so that a reader never sees half of one, whatever dies in the middle."""

import glob
import json
import os
from pathlib import Path
from typing import Any


def write_atomically(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    """Replace `path` with `content` in one step: temporary file beside it, fsync, rename, fsync of the
    folder. What a writer that was killed has left beside it is removed."""
    data = content.encode() if isinstance(content, str) else content
    _remove_leftovers(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _remove_leftovers(path: Path) -> None:
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        pid = leftover.name.split(".")[-2]
        if pid.isdigit() and not _is_running(int(pid)):
            leftover.unlink(missing_ok=True)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def write_json(path: Path, value: Any, mode: int = 0o644) -> None:
    """`write_atomically` for JSON, indented so that people can read it."""
    write_atomically(path, json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n", mode)
