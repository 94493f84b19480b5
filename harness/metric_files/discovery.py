"""Finds the files that a training may write its metrics into, among thousands that are none.

In: folders (the codebase, the attempt's own). Out: files of a known format, by name. A walk goes so deep and
looks at so many entries at most.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

import psutil

from harness.metric_files.source import COPIES, format_of
from monitors.processes import family

MOST_ENTRIES = 20_000
DEPTH = 7
LARGEST_BYTES = 256 << 20
_PASSED_OVER = {
    *("node_modules", "__pycache__", "site-packages", "venv", "env", "build", "dist", "checkpoints"),
    *("exp_results", COPIES),
}
_RESULTS = {"journal.jsonl", "sweep.jsonl"}
"""A folder with one of these is a result folder of the harness: what lies in it belongs to some run."""
_OWN = {"metrics.jsonl", "resources.jsonl"}
"""What the harness itself writes into the attempt's folder."""


def walk(top: Path, attempt: Path | None) -> Iterator[Path]:
    """The files of a known format in this folder and below it, but those that the harness writes. Hidden
    folders, caches, environments and result folders are passed over."""
    left = MOST_ENTRIES
    folders = [(top, 0)]
    for folder, depth in folders:
        try:
            with os.scandir(folder) as there:
                entries = list(islice(there, left))
        except OSError:
            continue
        left -= len(entries)
        names = {entry.name for entry in entries}
        if (depth and names & _RESULTS) or "pyvenv.cfg" in names:
            continue
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                is_ours = folder == attempt and entry.name in _OWN
                if not is_ours and format_of(Path(entry.path)) is not None:
                    yield Path(entry.path)
            elif depth < DEPTH and entry.name not in _PASSED_OVER and not entry.name.startswith("."):
                folders.append((Path(entry.path), depth + 1))


def files_below(folders: Iterable[Path], attempt: Path | None = None) -> list[Path]:
    """Every file below these folders that may hold metrics; `attempt`: the folder of one, where the harness
    writes files of its own."""
    return sorted({file for folder in folders for file in walk(folder, attempt)})


def written_by(attempt_id: str) -> set[Path]:
    """The files that the processes of an attempt have open for writing."""
    found: set[Path] = set()
    for pid in family(attempt_id):
        with suppress(psutil.Error, OSError):
            there = psutil.Process(pid).open_files()
            found |= {Path(one.path) for one in there if getattr(one, "mode", "w") != "r"}
    return found


def written_since(file: Path, time: float) -> bool:
    """True if the file has been changed since then (epoch s), and is not too large to be read."""
    try:
        found = file.stat()
    except OSError:
        return False
    return found.st_mtime >= time and 0 < found.st_size <= LARGEST_BYTES
