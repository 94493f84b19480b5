"""Writing files so that a reader never sees half of what was written, whatever dies in the middle."""

import glob
import json
import os
import shutil
from pathlib import Path
from typing import Any

from monitors.json_numbers import worded


def write_atomically(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    """Replace `path` with `content` in one step: temporary file beside it, fsync, rename, fsync of the
    folder. Names that are not UTF-8 are written as the bytes they are. What a writer that was killed has left
    beside it is removed."""
    data = content.encode(errors="surrogateescape") if isinstance(content, str) else content
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        pid = leftover.name.split(".")[-2]
        if pid.isdigit() and not is_running(int(pid)):
            leftover.unlink(missing_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.unlink(missing_ok=True)
        with temporary.open("xb") as file:
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


def write_json(path: Path, value: Any, mode: int = 0o644) -> None:
    """`write_atomically` for JSON, indented so that people can read it; what is not UTF-8 stands there in
    JSON's own escapes, and NaN and infinities as words."""
    text = json.dumps(worded(value), indent=2, ensure_ascii=False, default=str) + "\n"
    write_atomically(path, text.encode(errors="backslashreplace"), mode)


def copy_private(source: Path, target: Path) -> None:
    """Copy a file that may hold secrets: nobody else can read the copy, at any moment."""
    target.unlink(missing_ok=True)
    target.touch(mode=0o600)
    shutil.copyfile(source, target)


def append_lines(path: Path, text: str, mode: int = 0o644) -> None:
    """Append whole lines in one write, so that concurrent writers do not mix theirs; what a full disk cut off
    stays a line by itself."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, mode), "ab+", buffering=0) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
        is_cut_off = file.read(1) not in (b"", b"\n")
        file.write(("\n" * is_cut_off + text).encode(errors="replace"))


def has_whole_line(path: Path) -> bool:
    """True if the first line of a file is complete; False for one that is not there."""
    try:
        with path.open("rb") as file:
            return file.readline().endswith(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        return False


def is_running(pid: int) -> bool:
    """True if this machine has a process of this number."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError) as error:
        return isinstance(error, PermissionError)
    return True
