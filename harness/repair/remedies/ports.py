"""Another port where one is taken."""

import re

from harness.command import plain
from harness.repair.remedies.settings import Setting
from harness.repair.remedies.types import Repair, Situation

_LISTENS = re.compile(r"(^|[._])(master|main_process|rendezvous|rdzv|listen|bind|serve|server|dashboard)[._]")
_HOST_WORD = r"(host|hostname|url|uri|address|addr|ip|endpoint|server|bind|domain|node)"
_HOST = rf"(.*[_-])?{_HOST_WORD}"
_THIS_MACHINE = re.compile(
    r"(\w+://)?(localhost|127(\.\d{1,3}){3}|0\.0\.0\.0|\[?::1?\]?|\*)(:\d+)?(/.*)?", re.IGNORECASE
)
_TORCHRUN = re.compile(r"\btorchrun\b|torch\.distributed\.(run|launch)|\baccelerate\s+launch\b")
_RENDEZVOUS = re.compile(r"TCPStore|rendezvous|rdzv|c10d|init_process_group|MASTER_PORT", re.IGNORECASE)
_ENGINE = re.compile(r"vllm", re.IGNORECASE)


def free_port(now: Situation) -> Repair | None:
    """A free port at the key that holds the taken one, else in the variable that the program reads. Not where
    the key is about another machine, or an address of the config names the same port."""
    taken = int(now.captured("port")) if re.fullmatch(r"[0-9]{1,5}", now.captured("port")) else _evident(now)
    ports = [each for each in now.settings.of("port") if taken is not None and each.whole == taken]
    named = [each for each in ports if _is_here(now, each)]
    if named:
        if _is_in_an_address(now, str(taken)):
            return None
        port = now.ask.free_port()
        return Repair(edits={each.key: port for each in named})
    if ports:
        return None
    variable = _variable(now, str(taken or ""))
    return Repair(environment={variable: str(now.ask.free_port())}) if variable else None


def _evident(now: Situation) -> int | None:
    """The port that must be meant where the log names none: the only one of the config, at a key that says
    that the training listens there, and taken. That of a judge or a database is taken, and should be."""
    found = now.settings.of("port")
    port = found[0].whole if len(found) == 1 else None
    if port is None or not 0 < port < 65536 or not _LISTENS.search(plain(found[0].key)):
        return None
    return port if now.ask.is_taken(port) else None


def _is_here(now: Situation, port: Setting) -> bool:
    """True if no host or address that stands beside the port is another machine's."""
    of_port = plain(port.name).removesuffix("port").rstrip("_")
    for each in (each for each in now.settings.all if re.fullmatch(_HOST, each.name)):
        of_host = re.sub(f"{_HOST_WORD}$", "", plain(each.name)).rstrip("_")
        is_beside = each.above == port.above and (of_host == of_port or not of_host or not of_port)
        if is_beside and isinstance(each.value, str) and not _THIS_MACHINE.fullmatch(each.value.strip()):
            return False
    return True


def _is_in_an_address(now: Situation, port: str) -> bool:
    """True if another value of the config leads to this port."""
    texts = [value for value in now.settings.values.values() if isinstance(value, str)]
    return any(re.search(rf":{port}(?!\d)", text) for text in texts)


def _variable(now: Situation, taken: str) -> str | None:
    """The variable that the taken port comes from, or that the program takes one from."""
    if re.search(r"--(master|main_process|rdzv)[-_](port|endpoint)", now.command):
        return None  # the command line decides
    for name in ("MASTER_PORT", "VLLM_PORT", "PET_MASTER_PORT"):
        if taken and now.environment.get(name) == taken:
            return name
    if _RENDEZVOUS.search(now.said):
        return "PET_MASTER_PORT" if _TORCHRUN.search(now.command) else "MASTER_PORT"
    return "VLLM_PORT" if _ENGINE.search(now.said) else None
