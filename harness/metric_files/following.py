"""Follows the files that a training writes its metrics into, as a watch needs it where the log holds no rows.

In: where to look, since when. Out: rows as they come, of one source. While the training runs it keeps to the
source it found first; at the end it looks once more at everything, takes the best, and copies it into the
attempt's folder, so that every number can be followed from there.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import time
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path

from harness.atomic_write import write_atomically
from harness.metric_files.discovery import files_below, written_by, written_since
from harness.metric_files.source import COPIES, FileRow, FileSource, best, format_of, sources
from monitors.files import AttemptFiles
from monitors.row_source import NewRows

PACE_S, SLOWEST_S = 5.0, 30.0  # between two looks: as long as they bring something, and at most
MOST_SHARE = 50  # a look that takes long is followed by so many times its length without one
BEFORE = "files_before.json"
MOST_REMEMBERED = 200  # files
HASHED_BYTES = 1 << 20

_log = logging.getLogger(__name__)


class FollowedFiles:
    """A `RowSource` of files. `source` is the one chosen so far."""

    def __init__(
        self,
        files: AttemptFiles,
        codebase: Path,
        named: str = "",
        wanted: str = "",
        others_train: Callable[[float], bool] = lambda since: False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`named`: the file or folder that the plan names, "" for none. `wanted`: what the metrics are about,
        as for `names.leading`. `others_train`: whether others have trained in the codebase since a time, so
        that a file there may be theirs."""
        self.is_named = bool(named)
        self.source: FileSource | None = None
        self._files, self._codebase, self._named, self._wanted = files, codebase, named, wanted
        self._others_train = others_train
        self._clock = clock
        self._copies = files.dir / COPIES
        self._is_shared = False
        self._own: set[Path] = set()
        self._pace_s = PACE_S
        self.next_look = clock() + PACE_S  # most logs have a row soon
        self._told: list[str] = []
        self._seen: tuple[object, ...] = ()

    @property
    def words(self) -> str:
        """The source in words, such as `logs/metrics.csv (CSV)`; "" for none."""
        if self.source is None:
            return ""
        place, code = self.source.place, self._codebase
        name = str(place.relative_to(code) if place.is_relative_to(code) else place)
        shown = "".join(sign if sign.isprintable() else "?" for sign in name)
        return f"{shown} ({self.source.format.name})"

    def paths(self) -> list[Path]:
        """The files that rows come from."""
        return list(self.source.files) if self.source else []

    def look(self, final: bool = False) -> NewRows | None:
        """What has come since the last look; None for nothing. `final`: the training has ended."""
        if self._clock() < self.next_look and not final:
            return None
        begun, new = time.monotonic(), None
        info = self._files.supervisor()
        since = None if info is None else info.command_started_at
        try:
            if info is not None and since is not None:
                self._note_own(info.attempt_id, since)
                new = self._look(since, final)
        except OSError as error:
            _log.warning("files with metrics cannot be read: %s", error)
        self._pace_s = min(self._pace_s * 1.5, SLOWEST_S) if new is None and since is not None else PACE_S
        took = time.monotonic() - begun
        self.next_look = self._clock() + max(self._pace_s, MOST_SHARE * took)
        return new

    def _look(self, since: float, final: bool) -> NewRows | None:
        found = self._found(since)
        if self.source is not None and not final:
            found = [one for one in found if one.group == self.source.group]
        files = {file: file.stat() for one in found for file in one.files}
        seen = (final, *((file, stat.st_size, stat.st_mtime_ns) for file, stat in files.items()))
        if seen == self._seen:
            return None
        self._seen = seen
        chosen = (found[0] if found else None) if self.is_named else best(found, self._wanted)
        if chosen is None:
            return None
        self.source = chosen
        if final:
            shutil.rmtree(self._copies, ignore_errors=True)
            chosen.copied(self._copies)
        return self._news(self._own_rows(chosen))

    def _found(self, since: float) -> list[FileSource]:
        """The sources that this training has written since then."""
        folders = (self._codebase, self._files.dir)
        if self.is_named:
            return sources(filter(self._is_own, _named_files(self._named, folders, since)))
        there = files_below(folders, self._files.dir)
        return sources(file for file in there if written_since(file, since) and self._is_own(file))

    def _note_own(self, attempt_id: str, since: float) -> None:
        """Where others train in the same codebase, note which files this training has open."""
        self._is_shared = self._is_shared or self._others_train(since)
        if self._is_shared:
            self._own |= written_by(attempt_id)

    def _is_own(self, file: Path) -> bool:
        return not self._is_shared or file in self._own or file.is_relative_to(self._files.dir)

    def _own_rows(self, source: FileSource) -> list[FileRow]:
        """The rows without those that were in the file before the launch."""
        names = {file: file.relative_to(source.root).as_posix() for file in source.files}
        earlier = {name: _lines_before(file, self._before) for file, name in names.items()}
        return [(name, line, row) for name, line, row in source.rows() if line > earlier[name]]

    @cached_property
    def _before(self) -> dict[str, tuple[int, str]]:
        """Size and digest of the files that `remember` wrote down, by their path."""
        try:
            known = json.loads((self._files.dir / BEFORE).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return {name: (size, digest) for name, (size, digest) in known.items()}

    def _news(self, rows: list[FileRow]) -> NewRows | None:
        """Only what is new where the earlier rows are as they were, else all of them."""
        told = [repr(row) for row in rows]
        known = len(self._told)
        restarts = told[:known] != self._told
        self._told = told
        fresh = [(f"{COPIES}/{name}", line, row) for name, line, row in rows[0 if restarts else known :]]
        return NewRows(restarts, fresh) if fresh or restarts else None


def _named_files(name: str, bases: Iterable[Path], since: float) -> list[Path]:
    """The files that the plan names, as a path or a pattern below the first of these folders that has any; of
    a folder all in it."""
    found: list[Path] = []
    for base in bases:
        named = Path(name).expanduser()
        there = [named] if named.is_absolute() else sorted(base.glob(name))
        for path in there:
            found += path.rglob("*") if path.is_dir() else [path]
        if found:
            break
    return [file for file in dict.fromkeys(found) if file.is_file() and file.stat().st_mtime >= since]


# --- what was there before the launch -------------------------------------------------------------------


def remember(attempt: Path, codebase: Path) -> None:
    """Write down, before the launch, which tables and JSON lines there are already: a training may append to
    them, and the rows of earlier runs are not its own."""
    there = {file: file.stat() for file in files_below([codebase], attempt) if _may_be_appended_to(file)}
    newest = sorted(there, key=lambda file: there[file].st_mtime)[-MOST_REMEMBERED:]
    sizes = {str(file): there[file].st_size for file in newest}
    known = {name: [size, _digest(Path(name), size)] for name, size in sizes.items()}
    if known:
        write_atomically(attempt / BEFORE, json.dumps(known), mode=0o600)


def _may_be_appended_to(file: Path) -> bool:
    known = format_of(file)
    return known is not None and not known.holds_only_metrics and file.is_file()


def _lines_before(file: Path, before: dict[str, tuple[int, str]]) -> int:
    """How many lines of a file are from before the launch; 0 where it was written anew."""
    size, digest = before.get(str(file), (0, ""))
    if not size or file.stat().st_size < size or _digest(file, size) != digest:
        return 0
    with file.open("rb") as stream:
        return stream.read(size).rstrip(b"\n").count(b"\n") + 1


def _digest(file: Path, size: int) -> str:
    """Of the beginning of a file that had this size."""
    with file.open("rb") as stream:
        return hashlib.sha256(stream.read(min(size, HASHED_BYTES))).hexdigest()
