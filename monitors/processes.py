"""The process table: who runs, who descends from whom, who belongs to an attempt.

Standard library only, because the supervisor uses it under any interpreter. Where there is no /proc (macOS)
the table is empty and identities are unknown.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ATTEMPT_VARIABLE = "AJET_ATTEMPT_ID"
PROC = Path("/proc")


@dataclass(frozen=True)
class ProcessEntry:
    """One line of the process table.

    `start_ticks`: clock ticks after boot; with the boot id it tells a process from a later one of that pid.
    `activity`: counters (CPU ticks and page faults, its own and its reaped children's) that stand still only
    while the process sleeps and starts nothing.
    """

    pid: int
    parent: int
    group: int
    session: int
    state: str
    start_ticks: int
    activity: tuple[int, ...]
    name: str


def read_process(pid: int) -> ProcessEntry | None:
    """Return the table entry of `pid`, or None when there is no such process (or no /proc)."""
    text = _read(f"/proc/{pid}/stat").decode("utf-8", errors="replace")
    if not text:
        return None
    fields = text[text.rfind(")") + 2 :].split()
    return ProcessEntry(
        pid=pid,
        state=fields[0],
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        start_ticks=int(fields[19]),
        activity=tuple(int(fields[i]) for i in (7, 8, 11, 12, 13, 14)),
        name=text[text.find("(") + 1 : text.rfind(")")],
    )


def process_table() -> Iterator[ProcessEntry]:
    """Yield every live process; zombies are left out because nothing can be done to them."""
    for pid in _pids():
        entry = read_process(pid)
        if entry and entry.state not in "ZX":
            yield entry


def boot_id() -> str:
    """Return the kernel's id of this boot, or '' where there is none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def uptime() -> float:
    """Return the seconds since this boot, sleep of the machine included: time that nobody can set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()


def steady_time() -> float:
    """Return epoch seconds that nobody can set: the machine's clock when this process first asked, and the
    uptime since."""
    return _time_of_boot() + uptime()


@cache
def _time_of_boot() -> float:
    return time.time() - uptime()


def attempt_of(pid: int) -> str | None:
    """Return the attempt that the environment of `pid` names, None for none or where we may not look."""
    return variable_of(pid, ATTEMPT_VARIABLE)


def variable_of(pid: int, name: str) -> str | None:
    """Return a variable of the environment that `pid` was started with, None as for `attempt_of`."""
    _, found, rest = (b"\0" + _read(f"/proc/{pid}/environ")).partition(f"\0{name}=".encode())
    return os.fsdecode(rest.partition(b"\0")[0]) if found else None


def descendants(root: int, table: list[ProcessEntry]) -> set[int]:
    """Find every process in `table` that descends from `root`."""
    found: set[int] = set()
    parents = {root}
    while parents:
        parents = {entry.pid for entry in table if entry.parent in parents} - found
        found |= parents
    return found


def members_of_attempt(attempt_id: str) -> set[int]:
    """Find every live process whose environment names the attempt, the caller apart."""
    return {pid for pid in _pids() if attempt_of(pid) == attempt_id} - {os.getpid()}


def children(pid: int) -> set[int]:
    """Find the children of a process and of its threads."""
    if not os.path.exists("/proc/thread-self/children"):  # noqa: PTH110  on old kernels
        return {entry.pid for entry in process_table() if entry.parent == pid}
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            found |= {int(child) for child in _read(f"/proc/{pid}/task/{thread}/children").split()}
    return found


def offspring() -> set[int]:
    """Find every process that descends from the caller; costs what these processes and threads are, not what
    the machine runs."""
    found: set[int] = set()
    new = {os.getpid()}
    while new := set().union(*map(children, new)) - found:
        found |= new
    return found


def family(attempt_id: str, known: Iterable[int] = (), apart: Iterable[int] = ()) -> set[int]:
    """Find every live process of an attempt: those `known`, those whose environment names it, and all that
    descend from them; but none that names another attempt, nor `apart`, nor the caller.

    Reads little where there is none, because a hundred attempts may end at once.
    """
    left_out = {*apart, os.getpid()}
    new = {*known, *members_of_attempt(attempt_id)} - left_out
    table = [entry for entry in process_table() if entry.pid not in left_out] if new else []
    new &= {entry.pid for entry in table}
    found: set[int] = set()
    while new := {pid for pid in new - found if attempt_of(pid) in (None, attempt_id)}:
        found |= new
        new = {entry.pid for entry in table if entry.parent in new}
    return found


def send_signal(pid: int, signum: int) -> None:
    """Send a signal to a process that may already be gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signum)


def _pids() -> list[int]:
    if not PROC.is_dir():
        return []
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208  no need of paths


def _read(path: str) -> bytes:
    """Read a small file of /proc, b'' if it cannot be; without pathlib, since hundreds are read in a row."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        pieces = []
        while piece := os.read(descriptor, 1 << 18):
            pieces.append(piece)
        return b"".join(pieces)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
