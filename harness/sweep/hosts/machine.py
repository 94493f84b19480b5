"""What this machine has to share out: cores, memory and ports.

In: /proc, /sys and the limits of the container we are in. Out: `Machine`, and ports that nobody listens on.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from harness.machine.memory import groups
from harness.sweep.types import Needs

CGROUP = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
PORTS = range(20_000, 30_000)
NO_LIMIT = 2**60


@dataclass(frozen=True)
class Machine:
    """What the processes started here may use in all. `cores`: not whole under a CPU quota."""

    cores: float
    memory_bytes: int

    @classmethod
    def here(cls) -> Machine:
        return cls(cores(), memory_total())


def equal_share(needs: Needs, machine: Machine) -> Needs:
    """The needs with every part that is not said set to an equal share of this machine, as it is now."""
    return replace(
        needs,
        cpus=machine.cores / needs.sharers if needs.cpus is None else needs.cpus,
        memory_bytes=machine.memory_bytes // needs.sharers
        if needs.memory_bytes is None
        else needs.memory_bytes,
    )


# --- cores and memory -------------------------------------------------------------------------------


def cores(cgroup: Path = CGROUP, own: Path = OWN_GROUPS) -> float:
    """Cores that this process may use: those it may run on, or what the container's quota leaves of them."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([float(allowed), *_quotas(cgroup, own)])


def memory_total(cgroup: Path = CGROUP, own: Path = OWN_GROUPS) -> int:
    """Bytes of memory that this machine has, or that the container's limit allows."""
    import psutil

    limits = [int(psutil.virtual_memory().total)]
    for folder in groups("memory", cgroup, own):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = _text(folder / name)
            if limit.isdigit() and int(limit) < NO_LIMIT:
                limits.append(int(limit))
    return min(limits)


def _quotas(cgroup: Path, own: Path) -> Iterator[float]:
    for folder in groups("cpu", cgroup, own):
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


# --- ports ------------------------------------------------------------------------------------------


def usable_ports(ephemeral: Path = EPHEMERAL) -> list[int]:
    """Ports that are given out: none that the kernel gives to whoever connects to anything, unless it gives
    all of them."""
    match = re.fullmatch(r"(\d+)\s+(\d+)", _text(ephemeral))
    taken = range(int(match[1]), int(match[2]) + 1) if match else range(0)
    return [port for port in PORTS if port not in taken] or list(PORTS)


def choose_ports(
    names: Collection[str], lease_id: str, held: Collection[int], usable: list[int]
) -> dict[str, int] | None:
    """A port for each name: free now, and in nobody's lease; None where there are not enough.

    The search begins at a place of the lease's own, so that leases of different ledgers rarely meet.
    """
    start = zlib.crc32(lease_id.encode()) % len(usable)
    free = (port for port in (*usable[start:], *usable[:start]) if port not in held and is_free(port))
    found = dict(zip(dict.fromkeys(names), free, strict=False))
    return found if len(found) == len(set(names)) else None


def is_free(port: int) -> bool:
    """Whether a server could listen on the port right now, on this machine alone or on all its addresses.
    Addresses are not used again early (no SO_REUSEADDR): a port that still winds down is not free."""
    for host in ("127.0.0.1", "0.0.0.0"):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((host, port))
            except OSError as error:
                if error.errno in (errno.EADDRINUSE, errno.EACCES, errno.EPERM):
                    return False
                raise
    return True
