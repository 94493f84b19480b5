"""The append-only event log of one run or sweep; what happened is the fold of its entries.

In: events, one JSON object per line, each with a sequence number and a CRC-32 of its own content, fsynced
before the caller goes on. Out: the entries, in order. A torn last line (power loss in the middle of a
write: its line feed is missing) never took effect and is cut off, and reported as such, when the journal is
next opened; any other damage, an entry that its class does not describe, and one that cannot follow those
before it (`order`) are errors that name the line. One process owns a journal at a time: an advisory lock on
the file itself, which the kernel releases when the owner dies. On a file system that machines share, the
lock holds among them where the server carries it (NFS does, with neither `nolock` nor `local_lock`); where it
does not, an owner that finds entries of another one stops.
"""

import fcntl
import json
import os
import socket
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from harness.atomic_write import has_whole_line, is_running
from harness.codec import MisfitError, decode, encode
from harness.errors import UserError
from harness.journal.events import RUN, VERSION, JournalRepaired, Owner
from harness.journal.order import Event, ImpossibleEventError, Marks, Order
from monitors.processes import boot_id, steady_time, uptime

Clock = Callable[[], float]
E = TypeVar("E", bound=Event)
LOCK_PATIENCE_S = 1.0
LOCK_RETRY_S = 0.02


class JournalDamagedError(UserError):
    """A complete entry cannot be read: the file was edited or the disk is failing."""


class JournalOwnedError(UserError):
    """Another live process owns the journal; `owner` is the last one that entered itself."""

    def __init__(self, path: Path, owner: Owner | None) -> None:
        self.owner = owner
        pid, host = (owner.pid, owner.host) if owner else ("?", "?")
        super().__init__(
            f"{path.parent} is being run by process {pid} on {host}; "
            f"`harness stop {path.parent}` ends it, `harness show {path.parent}` looks at it"
        )


@dataclass(frozen=True)
class Entry:
    """One thing that happened: `seq` counts from 1, `time` is seconds since the epoch."""

    seq: int
    time: float
    event: Event

    @property
    def kind(self) -> str:
        """The kind of its event, as the journal names it."""
        return self.event.kind

    def to_line(self) -> bytes:
        body = {"seq": self.seq, "time": self.time, "kind": self.event.kind, "data": encode(self.event)}
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), default=str)
        whole = text.encode(errors="backslashreplace")  # what is not UTF-8, as JSON's own escapes
        return whole[:-1] + b',"crc":"%08x"}\n' % zlib.crc32(whole)


def _sound(line: bytes) -> bytes | None:
    """The entry on this line without its checksum, or None when it is torn or damaged."""
    head, separator, tail = line.rstrip(b"\n").rpartition(b',"crc":"')
    is_whole = bool(separator) and line.endswith(b"\n")
    return head + b"}" if is_whole and tail == b'%08x"}' % zlib.crc32(head + b"}") else None


def _parse(line: bytes) -> dict[str, Any] | None:
    """What stands on this line, or None when it is torn or damaged."""
    try:
        body: dict[str, Any] = json.loads((_sound(line) or b"").decode("utf-8", "surrogatepass"))
        return body if body.keys() == {"seq", "time", "kind", "data"} else None
    except (UnicodeDecodeError, json.JSONDecodeError, AttributeError):
        return None


def read(path: Path, order: Order = RUN) -> list[Entry]:
    """All entries of a journal; [] when there is none yet.

    Raises JournalDamagedError when a complete entry is unreadable, or any is impossible.
    """
    return _read(path, order)[0]


def first_and_last(path: Path) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The first and the last entry as JSON, much faster than reading them all; None for a journal that is
    damaged, torn, or not there: `read` says what is wrong with it."""
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError:
        return None
    if not lines or not all(map(_sound, lines)):
        return None
    first, last = _parse(lines[0]), _parse(lines[-1])
    is_whole = first is not None and last is not None and last["seq"] == len(lines)
    return (first, last) if first and last and is_whole and first["data"].get("version") == VERSION else None


def _read(path: Path, order: Order) -> tuple[list[Entry], Marks, int, bytes]:
    """Entries, the marks after them, length in bytes of the sound part, and the torn tail (b"" for none)."""
    entries: list[Entry] = []
    marks: Marks = frozenset()
    sound = 0
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return entries, marks, sound, b""
    for number, line in enumerate(lines, start=1):
        body = _parse(line)
        if body is None and not line.endswith(b"\n"):
            return entries, marks, sound, line
        if body is None and number == 1:
            raise JournalDamagedError(f"{path}: its first entry cannot be read; the file is no journal")
        if body is None or body["seq"] != number:
            raise JournalDamagedError(
                f"{path}:{number}: this entry does not carry its own checksum or number; the {number - 1} "
                "entries before it are sound. Fix: copy the folder, then cut the journal off above this line"
            )
        try:
            if number == 1 and (version := body["data"].get("version", 1)) != VERSION:
                raise MisfitError(
                    f"this journal has format {version}, and this harness reads format {VERSION}; "
                    "read it with the harness that wrote it"
                )
            event = order.decode(body["kind"], body["data"])
            marks = order.after(marks, event)
        except (MisfitError, ImpossibleEventError) as error:
            raise JournalDamagedError(f"{path}:{number}: {error}") from None
        entries.append(Entry(number, body["time"], event))
        sound += len(line)
    return entries, marks, sound, b""


class Journal:
    """The journal opened for writing; use as a context manager, or call `close`."""

    def __init__(self, path: Path, clock: Clock | None = None, order: Order = RUN) -> None:
        """Take ownership of the journal at `path`, creating it if needed. `clock`: another one than its own.

        Raises JournalOwnedError when a live process holds it, JournalDamagedError when it cannot be trusted.
        """
        self.path = path
        self._order = order
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._lock()
            self.entries, self._marks, self._end, torn = _read(path, order)
            self.clock = clock or clock_of(self.entries)
            if torn:
                os.ftruncate(self._fd, self._end)
            if torn and self.entries:  # a journal without a first entry has not begun
                self.append(JournalRepaired(torn.decode(errors="replace")))
        except BaseException:
            os.close(self._fd)
            raise

    def _lock(self) -> None:
        """Take the lock. Who holds it is known a moment later, when the holder has written its `owner` entry;
        a mere look (`is_owned`) holds it for a moment only. Both are waited for."""
        give_up = time.monotonic() + LOCK_PATIENCE_S
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                owner = last_owner(self.path)
            except OSError as error:
                raise UserError(
                    f"{self.path} cannot be locked ({error.strerror}): two machines could run it at once. "
                    "Fix: put the results on a file system that has locks, or mount this one with them"
                ) from error
            is_alive = owner and owner.host == socket.gethostname() and is_running(owner.pid)
            if is_alive or time.monotonic() > give_up:
                raise JournalOwnedError(self.path, owner)
            time.sleep(LOCK_RETRY_S)

    def append(self, event: Event) -> Entry:
        """Write one event and return its entry, just as a reader gets it, once it is on the disk.

        Raises JournalOwnedError when another process has written meanwhile, although it was locked;
        MisfitError or ImpossibleEventError, and writes nothing, when it could not be read again.
        """
        line = Entry(len(self.entries) + 1, round(self.clock(), 3), event).to_line()
        body = _parse(line)
        assert body is not None
        entry = Entry(body["seq"], body["time"], self._order.decode(event.kind, body["data"]))
        marks = self._order.after(self._marks, entry.event)
        start = os.fstat(self._fd).st_size
        if start != self._end:  # where machines do not share locks
            raise JournalOwnedError(self.path, last_owner(self.path))
        try:
            written = os.write(self._fd, line)
            if written != len(line):
                raise OSError(28, "No space left on device", str(self.path))
            os.fsync(self._fd)
        except OSError as error:
            os.ftruncate(self._fd, start)
            raise OSError(error.errno, error.strerror, str(self.path)) from None
        self.entries.append(entry)
        self._marks, self._end = marks, start + written
        return entry

    def of(self, kind: type[E]) -> Iterator[E]:
        """The events of this class, in order."""
        return events_of(self.entries, kind)

    def is_in_place(self) -> bool:
        """True if the file at `path` is still this one. Raises OSError where there is none."""
        return os.path.samestat(self.path.stat(), os.fstat(self._fd))

    def folder_now(self) -> Path | None:
        """The folder that the file is in, also where that was moved; None where it was deleted, or is on a
        disk that is not mounted."""
        with suppress(OSError):  # it may be closed, too
            found = Path(f"/proc/self/fd/{self._fd}").readlink()
            if os.path.samestat(found.stat(), os.fstat(self._fd)):
                return found.parent
        return None

    def is_deleted(self) -> bool:
        return os.fstat(self._fd).st_nlink == 0

    @property
    def is_open(self) -> bool:
        return self._fd >= 0

    def close(self) -> None:
        if self.is_open:
            os.close(self._fd)
        self._fd = -1

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def has_begun(path: Path) -> bool:
    """True if there is a first entry; without one there is nothing to go on with."""
    return has_whole_line(path)


def is_owned(path: Path) -> bool:
    """True if a live process holds the journal at `path`."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    except OSError:  # no locks here: nobody can own it
        return False
    finally:
        os.close(fd)


def clock_of(entries: Sequence[Entry]) -> Clock:
    """The time as a journal counts it, in epoch seconds: its first owner's on this boot, whatever the
    machine's clock was set to since; on another boot the machine's clock, and never before the last entry."""
    last = next((event for event in events_of(reversed(entries), Owner)), None)
    if last is not None and last.boot_id and last.boot_id == boot_id():
        booted_at = last.booted_at
    else:
        booted_at = max(steady_time() - uptime(), entries[-1].time - uptime() if entries else 0.0)
    return lambda: booted_at + uptime()


def events_of(entries: Iterable[Entry], kind: type[E]) -> Iterator[E]:
    """The events of one class among these entries."""
    return (entry.event for entry in entries if isinstance(entry.event, kind))


def last_owner(path: Path) -> Owner | None:
    """Whoever opened the journal last; None when nobody is known."""
    bodies = map(_parse, reversed(path.read_bytes().splitlines(keepends=True)))
    owners = (body["data"] for body in bodies if body is not None and body["kind"] == Owner.kind)
    return next((decode(Owner, data) for data in owners), None)
