"""A file system of its own for a test."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, megabytes: float, *options: str) -> Iterator[Path]:
    """A new folder with a disk of its own, with more of tmpfs' mount options; the test is skipped where none
    can be mounted. It is taken away also while somebody still uses it."""
    folder.mkdir(parents=True)
    told = ",".join((f"size={round(1024 * megabytes)}k", *options))
    command = ["mount", "-t", "tmpfs", "-o", told, "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
