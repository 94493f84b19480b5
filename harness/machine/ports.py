"""TCP ports of this machine: which are free, which to give out, who holds one."""

import errno
import random
import re
import socket
from pathlib import Path

from monitors.processes import ATTEMPT_VARIABLE

EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
PORTS = range(20_000, 30_000)
_ADDRESSES = ("127.0.0.1", "0.0.0.0")


def is_free(port: int, winding_down_counts: bool = True) -> bool:
    """True if a server could listen on the port right now, on this machine alone and on all its addresses.
    `winding_down_counts`: a port whose last connections still end is not free."""
    for host in _ADDRESSES:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            if not winding_down_counts:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
                probe.listen(1)
            except OSError as error:
                if error.errno in (errno.EADDRINUSE, errno.EACCES, errno.EPERM):
                    return False
                raise
    return True


def is_taken(port: int) -> bool:
    """True if a server that binds the port, as servers do (SO_REUSEADDR), would fail."""
    return not is_free(port, winding_down_counts=False)


def usable_ports(ephemeral: Path = EPHEMERAL) -> list[int]:
    """Ports to give out: none that the kernel gives to whoever connects to anything, unless those are all."""
    text = ephemeral.read_text(encoding="utf-8") if ephemeral.is_file() else ""
    match = re.fullmatch(r"(\d+)\s+(\d+)", text.strip())
    taken = range(int(match[1]), int(match[2]) + 1) if match else range(0)
    return [port for port in PORTS if port not in taken] or list(PORTS)


def a_free_port() -> int:
    """A port that is free now, and that no connection gets by chance."""
    usable = usable_ports()
    return next(port for port in random.sample(usable, len(usable)) if not is_taken(port))


def holder(port: int) -> str:
    """` by NAME (pid, user)`, with a word if it is left from an attempt of ours; "" if unknown."""
    import psutil

    try:
        listening = (item for item in psutil.net_connections("tcp") if item.status == psutil.CONN_LISTEN)
        pid = next((item.pid for item in listening if item.laddr and item.laddr.port == port), None)
        if pid is None:
            return ""
        process = psutil.Process(pid)
        names = f"{process.name()} (pid {pid}, {process.username()}"
        try:
            is_ours = ATTEMPT_VARIABLE in process.environ()
        except psutil.Error:
            is_ours = False
        return f" by {names}{', left from an attempt of the harness' if is_ours else ''})"
    except psutil.Error:
        return ""
