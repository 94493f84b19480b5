"""Ports that the training will listen on are free, servers that it asks answer.

Only settings that surely mean "listen here" count: the port of a judge or a database is taken, and should be.
"""

import re
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

from harness.config import edit
from harness.doctor.findings import Finding, fine, problem, warning
from harness.doctor.launch import PlannedLaunch
from harness.machine.ports import a_free_port, answers, holder, is_taken

_LISTENS = re.compile(
    r"(?:^|[._])(?:master_port|main_process_port|interchange_server_port|dashboard_port|rollout_server_port"
    r"|listen_port|bind_port|tensorboard_port)$"
)
_ASKED = re.compile(r"(?:^|[._])(?:\w*base_url|api_base|\w*(?:judge|reward|env|server|teacher)_url)$")
_HERE = ("", "localhost", "127.0.0.1", "0.0.0.0", "::1", "::", "[::]", socket.gethostname())
_TORCHRUN, _RAY = 29500, 6379
_OTHER_RENDEZVOUS = re.compile(r"--standalone|--rdzv|--master[-_]port|--node[-_]rank")


def wanted(launch: PlannedLaunch) -> dict[int, str]:
    """Port → who says that it will be listened on."""
    settings = launch.settings
    named = [(value, key) for key, value in settings.values.items() if _LISTENS.search(key)]
    named.append((_port_here(settings.text("rdzv_endpoint")), "--rdzv_endpoint"))
    variables = (launch.environment, *(call.variables for call in launch.calls))
    given = [each.get("MASTER_PORT", "") for each in variables]
    named += [(int(port), "MASTER_PORT") for port in given if port.isdigit()]
    found = {port: who for port, who in reversed(named) if isinstance(port, int) and 0 < port < 65536}
    for call in (*launch.calls, *(program.call for program in launch.programs)):
        is_torchrun = call.program.endswith("torchrun") and not _OTHER_RENDEZVOUS.search(" ".join(call.words))
        if is_torchrun and not found:
            found[_TORCHRUN] = "torchrun's default"
        if call.words[:3] == ("ray", "start", "--head") and settings.whole("port") is None:
            found.setdefault(_RAY, "ray start's default")
    return found


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
        make = warning if launch.prepares or who.endswith("default") else problem
        free = a_free_port()
        fix = f"choose another in {who}, such as {free}, or end what listens there if it is yours"
        found = make(f"port {port} ({who}) is taken{holder(port)}", fix, "port_in_use")
        known = {"port": str(port), "free_port": str(free)}
        if launch.given.get(who) == str(port):
            found = found.fixed_by("free_port", variable=who, **known)
        elif edit.get(launch.config, who) == port:
            found = found.fixed_by("free_port", **known)
        yield found


def servers_answer(launch: PlannedLaunch) -> Iterator[Finding]:
    """Somebody listens at the addresses on this machine that the training asks."""
    ours = wanted(launch)
    uses_service = launch.settings.get("ajet.task_reader.type") == "env_service"
    for key, text in launch.settings.texts():
        port = _port_here(text.partition("://")[2]) if _ASKED.search(key) else 0
        if not port or port in ours or (key.startswith("ajet.task_reader.env_service.") and not uses_service):
            continue
        if answers(port):
            yield fine(f"{key}: somebody listens on port {port}")
        else:
            fix = "start that server before the training, unless the training starts it"
            text = f"{key}: no server listens on port {port} of this machine"
            yield warning(text, fix, "service_unavailable")
