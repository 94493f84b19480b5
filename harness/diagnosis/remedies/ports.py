"""Another port where one is taken."""

import re

from harness.diagnosis.remedies.types import Repair, Situation

_PORT = r"(.*_)?port"
_TORCHRUN = re.compile(r"\btorchrun\b|torch\.distributed\.(run|launch)|\baccelerate\s+launch\b")
_RENDEZVOUS = re.compile(r"TCPStore|rendezvous|rdzv|c10d|init_process_group|MASTER_PORT", re.IGNORECASE)
_ENGINE = re.compile(r"vllm", re.IGNORECASE)


def free_port(now: Situation) -> Repair | None:
    """A free port at the key that holds the taken one, else in the variable that the program reads."""
    taken = int(now.captured("port")) if re.fullmatch(r"\d{1,5}", now.captured("port")) else None
    ports = [each for each in now.settings.named(_PORT) if each.whole is not None and each.whole > 0]
    named = [each for each in ports if each.whole == taken] if taken is not None else ports
    if named and (taken is not None or len(named) == 1):
        port = now.ask.free_port()
        return Repair(edits={each.key: port for each in named})
    variable = _variable(now, str(taken or ""))
    return Repair(environment={variable: str(now.ask.free_port())}) if variable else None


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
