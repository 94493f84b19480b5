"""Finds the files that a training may write its metrics into, among thousands that are none.

In: folders (the codebase, the attempt's own). Out: files of a known format, by name. A walk goes so deep and
looks at so many entries at most.
"""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import psutil

from harness.metric_files.formats import format_of
from harness.metric_files.source import COPIES
from monitors.processes import family

MOST_ENTRIES = 20_000
MOST_WATCHED = 1_000  # folders
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

_log = logging.getLogger(__name__)


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


class Candidates:
    """The files below some folders that may hold metrics. `watchdog` tells that something was created, so
    that the folders are not walked again without need; a tree with very many folders is walked every time."""

    def __init__(self, folders: Sequence[Path], attempt: Path) -> None:
        self._folders = folders
        self._attempt = attempt
        self._files: list[Path] = []
        self._created = threading.Event()
        self._created.set()
        self._observer = _observer(folders, self)

    def written_since(self, time: float, surely: bool = False) -> list[Path]:
        """Those that have been changed since then (epoch s), and are not too large to be read. `surely`: also
        those that a file system has not announced."""
        if surely or self._observer is None or self._created.is_set():
            self._created.clear()
            self._files = files_below(self._folders, self._attempt)
        return [file for file in self._files if _is_written_since(file, time)]

    def dispatch(self, event: object) -> None:
        """What watchdog calls, in its own thread."""
        self._created.set()

    def close(self) -> None:
        """Stop watching."""
        if self._observer is not None:
            self._observer.stop()


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


def _observer(folders: Sequence[Path], handler: Any) -> Any:
    """A running observer of these folders and all below; None where there are too many of them."""
    below = (inner for folder in folders for inner in os.walk(folder))
    if sum(1 for _ in islice(below, MOST_WATCHED + 1)) > MOST_WATCHED:
        return None
    from watchdog.events import DirCreatedEvent, DirMovedEvent, FileCreatedEvent, FileMovedEvent
    from watchdog.observers import Observer

    warnings.filterwarnings("ignore", category=RuntimeWarning, module="watchdog")  # of its own races, of
    logging.getLogger("watchdog").setLevel(logging.CRITICAL)  # which it also logs errors
    observer = Observer()
    observer.daemon = True
    created: Any = [DirCreatedEvent, DirMovedEvent, FileCreatedEvent, FileMovedEvent]
    try:
        for folder in folders:
            observer.schedule(handler, str(folder), recursive=True, event_filter=created)
        observer.start()
    except OSError as error:  # the user's limit of watches
        _log.info("new files are looked for without watchdog: %s", error)
        return None
    return observer


def _is_written_since(file: Path, time: float) -> bool:
    try:
        found = file.stat()
    except OSError:
        return False
    return found.st_mtime >= time and 0 < found.st_size <= LARGEST_BYTES
