"""The append-only event log of one experiment; what happened is the fold of its entries.

In: entries, one JSON object per line, each with a sequence number and a CRC-32 of its own content, fsynced
before the caller goes on. Out: the entries, in order. A torn last line (power loss in the middle of a
write) never took effect and is cut off, and said so, when the journal is next opened; damage anywhere else
is an error that names the line. One process owns a journal at a time: an advisory lock on the file itself,
which the kernel releases when the owner dies.
"""

import fcntl
import json
import os
import socket
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

LOCK_PATIENCE_S = 1.0
LOCK_RETRY_S = 0.02


class JournalDamagedError(Exception):
    """An entry other than the last one cannot be read: the file was edited or the disk is failing."""


class JournalOwnedError(Exception):
    """Another live process owns the journal; `owner` is its last `owner` entry (pid, host)."""

    def __init__(self, path: Path, owner: dict[str, Any]) -> None:
        self.owner = owner
        super().__init__(
            f"{path.parent} is being run by process {owner.get('pid', '?')} on {owner.get('host', '?')}; "
            f"`harness stop {path.parent}` ends it, `harness show {path.parent}` looks at it"
        )


@dataclass(frozen=True)
class Entry:
    """One thing that happened: `seq` counts from 1, `time` is seconds since the epoch."""

    seq: int
    time: float
    kind: str
    data: dict[str, Any] = field(default_factory=dict)

    def to_line(self) -> bytes:
        body = {"seq": self.seq, "time": self.time, "kind": self.kind, "data": self.data}
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), default=str)
        return f'{text[:-1]},"crc":"{_checksum(text)}"}}\n'.encode("utf-8", "surrogatepass")


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode('utf-8', 'surrogatepass')):08x}"


def _parse(line: bytes) -> Entry | None:
    """The entry on this line, or None when the line is torn or damaged."""
    head, separator, tail = line.rstrip(b"\n").rpartition(b',"crc":"')
    if not separator or not line.endswith(b"\n"):
        return None
    try:
        text = head.decode("utf-8", "surrogatepass") + "}"
        if tail.decode() != f'{_checksum(text)}"}}':
            return None
        body = json.loads(text)
        return Entry(body["seq"], body["time"], body["kind"], body["data"])
    except (UnicodeDecodeError, json.JSONDecodeError, KeyError):
        return None


def read(path: Path) -> list[Entry]:
    """All entries of a journal; [] when there is none yet.

    Raises JournalDamagedError when an entry that is not the last one is unreadable or out of order.
    """
    return _read(path)[0]


def _read(path: Path) -> tuple[list[Entry], int, bytes]:
    """Entries, length in bytes of the sound part, and the torn tail (b"" when there is none)."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return [], 0, b""
    entries: list[Entry] = []
    sound = 0
    lines = content.splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        entry = _parse(line)
        if entry is None and number == len(lines):
            return entries, sound, line
        if entry is None or entry.seq != len(entries) + 1:
            raise JournalDamagedError(
                f"{path}:{number}: this entry does not carry its own checksum or number; "
                f"the {len(entries)} entries before it are sound. Copy the folder before you mend it by hand"
            )
        entries.append(entry)
        sound += len(line)
    return entries, sound, b""


class Journal:
    """The journal opened for writing; use as a context manager, or call `close`."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        """Take ownership of the journal at `path`, creating it if needed.

        Raises JournalOwnedError when a live process holds it, JournalDamagedError when it cannot be trusted.
        """
        self.path = path
        self._clock = clock
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._lock()
            self.entries, sound, torn = _read(path)
            if torn:
                os.ftruncate(self._fd, sound)
                if self.entries:  # a journal without a first entry has not begun
                    self.append("journal_repaired", torn=torn.decode(errors="replace"))
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
                owner = last_owner(read(self.path))
            if _runs_here(owner) or time.monotonic() > give_up:
                raise JournalOwnedError(self.path, owner)
            time.sleep(LOCK_RETRY_S)

    def append(self, kind: str, **data: Any) -> Entry:
        """Write one entry and return once it is on the disk."""
        entry = Entry(len(self.entries) + 1, round(self._clock(), 3), kind, data)
        line = entry.to_line()
        start = os.fstat(self._fd).st_size
        try:
            written = os.write(self._fd, line)
            if written != len(line):
                raise OSError(28, "No space left on device", str(self.path))
            os.fsync(self._fd)
        except OSError:
            os.ftruncate(self._fd, start)
            raise
        self.entries.append(Entry(entry.seq, entry.time, kind, json.loads(json.dumps(data, default=str))))
        return entry

    def of_kind(self, kind: str) -> Iterator[Entry]:
        return (entry for entry in self.entries if entry.kind == kind)

    def close(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def has_begun(path: Path) -> bool:
    """Whether there is a first entry; without one there is nothing to go on with."""
    try:
        with path.open("rb") as file:
            return file.readline().endswith(b"\n")
    except FileNotFoundError:
        return False


def is_owned(path: Path) -> bool:
    """Whether a live process holds the journal at `path`."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(fd)


def last_owner(entries: list[Entry]) -> dict[str, Any]:
    """The data of the newest `owner` entry: pid and host of whoever opened the journal last; {} when none
    is known."""
    return next((entry.data for entry in reversed(entries) if entry.kind == "owner"), {})


def _runs_here(owner: dict[str, Any]) -> bool:
    """Whether a process of this machine has the pid that an `owner` entry names."""
    if owner.get("host") != socket.gethostname():
        return False
    try:
        os.kill(int(owner["pid"]), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def owner_data() -> dict[str, Any]:
    """What an `owner` entry says about this process."""
    return {"pid": os.getpid(), "host": socket.gethostname()}
