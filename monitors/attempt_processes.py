"""All processes of one attempt: kept in a control group where the machine has one, found, and ended.

In: the attempt's id, and what its supervisor noted. Out: pids. Standard library only; the supervisor, its
guardian and `monitors.launch.kill_leftovers` use the same.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from monitors.processes import read_process, send_signal

GROUP = "ajet-"
PROCS = "cgroup.procs"
KILL_PATIENCE_S = 10.0
Identity = tuple[int, int]
"""A pid and its start in clock ticks after boot."""


def make_group(attempt_id: str) -> Path | None:
    """Make a control group (cgroup v2) below our own: no process leaves it by forgetting its parents or its
    environment. None where there is no cgroup v2 that we may write to."""
    try:
        own = _after("0::", Path("/proc/self/cgroup")).rstrip("/")
        mount = _after("", Path("/proc/self/mountinfo"), having=" - cgroup2 ").split()[4]
        group = Path(f"{mount}{own}/{GROUP}{attempt_id}")
        group.mkdir(exist_ok=True)
    except (OSError, StopIteration):
        return None
    return group


def entered(group: Path | None) -> Path | None:
    """Move into the group, which all that we start then belongs to; None where that is not possible."""
    try:
        if group is not None:
            (group / PROCS).write_text("0", encoding="ascii")
    except OSError:
        return None
    return group


def group_of(attempt_id: str, noted: str) -> Path | None:
    """The group that a supervisor has noted, if it is this attempt's."""
    return Path(noted) if noted.endswith(f"/{GROUP}{attempt_id}") else None


def members_of_group(group: Path | None) -> set[int]:
    """Find every process in a group and in those made below it, but for those of other attempts."""
    found: set[int] = set()
    for each in _with_inner(group):
        with contextlib.suppress(OSError):
            found |= {int(pid) for pid in (each / PROCS).read_text(encoding="ascii").split()}
    return found - {0}  # of another namespace


def remove_group(group: Path | None) -> None:
    """Remove a group whose processes have all ended, which the kernel may notice a moment later; one that has
    some is left as it is."""
    for each in reversed(_with_inner(group)):
        for pause_s in (0.01, 0.1, 0.0):
            try:
                each.rmdir()
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(pause_s)
            else:
                break


def _with_inner(group: Path | None) -> list[Path]:
    if group is None:
        return []
    below = sorted(path.parent for path in group.rglob(f"*/{PROCS}"))
    return [group, *(each for each in below if GROUP not in str(each.relative_to(group)))]


def _after(start: str, file: Path, having: str = "") -> str:
    lines = file.read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith(start) and having in line)[len(start) :]


def still_there(noted: Iterable[Identity]) -> set[int]:
    """Find which of the processes noted earlier on this boot still run."""
    entries = ((read_process(pid), ticks) for pid, ticks in noted)
    return {entry.pid for entry, ticks in entries if entry is not None and entry.start_ticks == ticks}


def end(find: Callable[[], set[int]], grace_s: float, pause: Callable[[float], object]) -> set[int]:
    """TERM whatever `find` finds, KILL what it still finds after the grace; return all that were asked.

    `pause` waits for so many seconds, and may do other things meanwhile.
    """
    asked: set[int] = set()
    for signum, patience in ((signal.SIGTERM, grace_s), (signal.SIGKILL, KILL_PATIENCE_S)):
        give_up = time.monotonic() + patience
        pace = 0.01
        while members := find():
            for pid in members if signum == signal.SIGKILL else members - asked:
                send_signal(pid, signum)
            asked |= members
            if time.monotonic() >= give_up:
                break
            pause(pace)
            pace = min(0.25, pace * 1.5)
    return asked
