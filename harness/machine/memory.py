"""Memory and cores that this process may use: what the machine or its container leaves.

In: /proc and the control groups of versions 1 and 2. Out: bytes and cores.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")
_NO_LIMIT = 2**60


def cores(root: Path = CGROUP, own: Path = OWN_GROUPS) -> float:
    """Cores that this process may run on, or what the container's quota leaves of them; not always whole."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([float(allowed), *_quotas(root, own)])


def memory_total(root: Path = CGROUP, own: Path = OWN_GROUPS) -> int:
    """Bytes of memory that this machine has, or that the container's limit allows."""
    import psutil

    total, limit = int(psutil.virtual_memory().total), memory_limit(root, own)
    return total if limit is None else min(total, limit)


def memory_limit(root: Path = CGROUP, own: Path = OWN_GROUPS) -> int | None:
    """Bytes of memory that the container or control group allows; None where there is no such limit."""
    limits = (_limit(folder) for folder in _groups("memory", root, own))
    return min((limit for limit in limits if limit is not None), default=None)


def memory_available(root: Path = CGROUP, own: Path = OWN_GROUPS) -> int:
    """Bytes that can still be used: what the machine has, or what the container's limit leaves."""
    import psutil

    free = int(psutil.virtual_memory().available)
    for folder in _groups("memory", root, own):
        if (limit := _limit(folder)) is not None:
            used = _number_in(folder / "memory.current") or _number_in(folder / "memory.usage_in_bytes") or 0
            stat = re.search(r"^inactive_file (\d+)$", _text(folder / "memory.stat"), re.MULTILINE)
            cached = int(stat[1]) if stat else 0  # the kernel gives file caches up before it kills
            free = min(free, max(0, limit - used + cached))
    return free


def _groups(controller: str, root: Path = CGROUP, own: Path = OWN_GROUPS) -> Iterator[Path]:
    """The groups whose limits hold here, from our own up to the top: the parents' count too. Version 1 has a
    tree per controller, whose top is our own group where the container shows no more of it."""
    for line in _text(own).splitlines():
        _, controllers, path = line.split(":", 2)
        top = root
        if controllers:
            if controller not in controllers.split(","):
                continue
            top = root / controllers if (root / controllers).is_dir() else root / controller
        folder = top / path.strip("/")
        yield from (parent for parent in (folder, *folder.parents) if top in (parent, *parent.parents))


def _number_in(path: Path) -> int | None:
    """The number that a file of the kernel holds; None where it holds none, such as `max`."""
    text = _text(path)
    return int(text) if text.isdigit() else None


def _limit(folder: Path) -> int | None:
    found = (_number_in(folder / name) for name in ("memory.max", "memory.limit_in_bytes"))
    return min((limit for limit in found if limit is not None and limit < _NO_LIMIT), default=None)


def _quotas(root: Path, own: Path) -> Iterator[float]:
    for folder in _groups("cpu", root, own):
        quota, _, period = _text(folder / "cpu.max").partition(" ")
        if not quota:
            quota, period = _text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit() and int(quota) > 0 and int(period) > 0:
            yield int(quota) / int(period)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
