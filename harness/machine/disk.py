"""Room on the file system of a folder, also of one that is still to be made."""

import os
import shutil
from pathlib import Path

MIN_FREE_BYTES = 200 * 2**20
"""Less than this where the results go, and nothing is launched."""


def existing(path: Path) -> Path:
    """The folder itself, or the nearest one above it that is there."""
    return next((folder for folder in (path, *path.parents) if folder.is_dir()), Path("/"))


def free_bytes(path: Path) -> int:
    """Bytes that an ordinary user can still write there."""
    return shutil.disk_usage(existing(path)).free


def free_files(path: Path) -> int | None:
    """Files that can still be made there; None where the file system does not count them."""
    state = os.statvfs(existing(path))
    return state.f_favail if state.f_files else None


def in_words(count: float) -> str:
    """`1536` MiB → `1.5 GiB`."""
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"
