"""Ports that the training will listen on are free on this machine.

Only settings that surely mean "listen here" count: the port of a judge or a database is taken, and should be.
"""

import ast
import errno
import random
import re
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from harness.config.values import flatten
from harness.doctor.launch import PlannedLaunch
from harness.doctor.types import Finding, fine, problem, warning
from monitors.processes import ATTEMPT_VARIABLE

if TYPE_CHECKING:
    import psutil

_LISTENS = re.compile(
    r"(?:^|[._])(?:master_port|main_process_port|interchange_server_port|dashboard_port|rollout_server_port"
    r"|listen_port|bind_port|tensorboard_port)$"
)
_HERE = ("", "localhost", "127.0.0.1", "0.0.0.0", "::1", "::", "[::]", socket.gethostname())
_RENDEZVOUS = 29500
_QUIET = range(20_000, 32_000)
_IN_SOURCE = re.compile(
    r"""['"]?MASTER_PORT['"]?\]?\s*[=:,]\s*(?:str\()?['"]?(\d{4,5})\b"""
    r"""|tcp://(?:127\.0\.0\.1|localhost|0\.0\.0\.0):(\d{4,5})\b"""
)
_ASKED = re.compile(r"(?:^|[._])(?:\w*base_url|api_base|\w*(?:judge|reward|env|server|teacher)_url)$")
_ANSWER_S = 0.5


def wanted(launch: PlannedLaunch) -> dict[int, str]:
    """Port → who says that it will be listened on."""
    found: dict[int, str] = {}
    for key, value in launch.settings.values.items():
        if _LISTENS.search(key) and isinstance(value, int) and 0 < value < 65536:
            found.setdefault(value, key)
    endpoint = launch.settings.get("rdzv_endpoint")
    if isinstance(endpoint, str) and (port_here := _port_here(endpoint)):
        found.setdefault(port_here, "--rdzv_endpoint")
    for variables in (launch.environment, *(call.variables for call in launch.calls)):
        port = variables.get("MASTER_PORT", "")
        if port.isdigit() and 0 < int(port) < 65536:
            found.setdefault(int(port), "MASTER_PORT")
    for given, where in _of_sources(launch):
        found.setdefault(given, where)
    if not found and any(_uses_default(program.call.words) for program in launch.programs):
        found[_RENDEZVOUS] = "torchrun's default"
    for call in launch.calls:
        if call.words[:3] == ("ray", "start", "--head") and launch.settings.whole("port") is None:
            found.setdefault(6379, "ray start's default")
    return found


def _of_sources(launch: PlannedLaunch) -> Iterator[tuple[int, str]]:
    """Rendezvous ports that the source gives itself: MASTER_PORT, `tcp://localhost:PORT`."""
    for file, tree in launch.wanted().trees.items():
        for match in _IN_SOURCE.finditer(ast.unparse(tree)):
            yield int(match[1] or match[2]), f"{launch.shown(file)}'s source"


def _uses_default(words: tuple[str, ...]) -> bool:
    """Whether torchrun takes its default port: one machine, no other rendezvous."""
    text = " ".join(words).replace("_", "-")
    return words[0].endswith("torchrun") and not re.search(
        r"--standalone|--rdzv|--master-port|--node-rank", text
    )


def _port_here(endpoint: str) -> int:
    """The port of `host:port` if the host is this one, else 0."""
    try:
        parts = urlsplit(f"//{endpoint}")
        return (parts.port or 0) if (parts.hostname or "") in _HERE else 0
    except ValueError:
        return 0


def are_free(launch: PlannedLaunch) -> Iterator[Finding]:
    """Nobody listens on the ports that the training will listen on."""
    for port, who in wanted(launch).items():
        if not is_taken(port):
            yield fine(f"port {port} ({who}) is free")
            continue
        make = warning if launch.prepares or who.endswith(("default", "source")) else problem
        free = a_free_port()
        mend = f"choose another in {who}, such as {free}, or end what listens there if it is yours"
        found = make(f"port {port} ({who}) is taken{holder(port)}", mend, "port_in_use")
        yield _mended(launch, found, port, who, free)


def _mended(launch: PlannedLaunch, found: Finding, port: int, who: str, free: int) -> Finding:
    """The finding with its repair, where the port stands at a place that a repair reaches: the config, or a
    variable that the caller has set."""
    known = {"port": str(port), "free_port": str(free)}
    if launch.given.get(who) == str(port):
        return found.mended_by("free_port", variable=who, **known)
    return found.mended_by("free_port", **known) if flatten(launch.config).get(who) == port else found


def servers_answer(launch: PlannedLaunch) -> Iterator[Finding]:
    """Somebody listens at the addresses on this machine that the training asks."""
    ours = wanted(launch)
    for key, value in launch.settings.values.items():
        if not isinstance(value, str) or not _ASKED.search(key):
            continue
        if (
            key.startswith("ajet.task_reader.env_service.")
            and launch.settings.get("ajet.task_reader.type") != "env_service"
        ):
            continue
        port = _port_here(value.partition("://")[2])
        if not port or port in ours:
            continue
        with socket.socket() as probe:
            probe.settimeout(_ANSWER_S)
            answers = probe.connect_ex(("127.0.0.1", port)) == 0
        if answers:
            yield fine(f"{key}: somebody listens on port {port}")
        else:
            mend = "start that server before the training, unless the training starts it"
            yield warning(
                f"{key}: nobody listens on port {port} of this machine", mend, "service_unavailable"
            )


def is_taken(port: int) -> bool:
    """Whether a server that binds the port on this machine would fail."""
    for family, host in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET, "127.0.0.1")):
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
                probe.listen(1)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return True
    return False


def a_free_port() -> int:
    """A port that nobody has now, and that no connection gets by chance: Linux gives those above 32767 to
    whoever connects to anything."""
    return next(port for port in random.sample(_QUIET, len(_QUIET)) if not is_taken(port))


def holder(port: int) -> str:
    """` by NAME (pid, user)`, with a word if it is left from an attempt of ours; empty where nobody tells."""
    import psutil

    try:
        listening = (item for item in psutil.net_connections("tcp") if item.status == psutil.CONN_LISTEN)
        pid = next((item.pid for item in listening if item.laddr and item.laddr.port == port), None)
        if pid is None:
            return ""
        process = psutil.Process(pid)
        ours = ", left from an attempt of the harness" if ATTEMPT_VARIABLE in _environ(process) else ""
        return f" by {process.name()} (pid {pid}, {process.username()}{ours})"
    except psutil.Error:
        return ""


def _environ(process: "psutil.Process") -> dict[str, str]:
    import psutil

    try:
        return process.environ()
    except psutil.Error:
        return {}
