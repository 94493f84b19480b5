"""Experiment trackers: the one that the config names has a key, or runs offline. Keys are never shown."""

import netrc
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.doctor.findings import Finding, fine, problem, warning
from harness.doctor.launch import PlannedLaunch

_LOGGERS = "trainer.logger ajet.trainer_common.logger report_to training.report_to logger log_with"
_QUIET = ("offline", "disabled", "dryrun", "local")
_HOSTS = {
    "wandb": ("api.wandb.ai",),
    "swanlab": ("swanlab.cn", "api.swanlab.cn", "https://api.swanlab.cn", "https://swanlab.cn"),
}
"""Tracker → its hosts as they stand in a netrc file."""


def have_keys(launch: PlannedLaunch) -> Iterator[Finding]:
    """A tracker that is written to over the network has a key."""
    variables = launch.environment
    value = launch.settings.get(*_LOGGERS.split())
    words = value if isinstance(value, list | tuple) else re.split(r"[\s,\[\]'\"]+", str(value or ""))
    for name in _HOSTS:
        if name not in words:
            continue
        key, mode = f"{name.upper()}_API_KEY", f"{name.upper()}_MODE"
        is_off = variables.get(f"{name.upper()}_DISABLED", "").lower() == "true"
        if variables.get(mode, "").lower() in _QUIET or is_off:
            yield fine(f"{name} does not need a key: it is offline")
        elif variables.get(key) or _in_netrc(name, variables):
            yield fine(f"{name} has a key")
        else:
            command = launch.blueprint.launch_command or ""
            brings_one = f"{name} login" in command or (launch.codebase / ".env").exists()
            make = warning if launch.prepares or brings_one else problem
            text = f"the config asks for {name}, and there is no key for it: it would ask for one"
            yield make(
                text, f"run `{name} login` or export {key}; without a network set {mode}=offline", "auth"
            )


def _in_netrc(name: str, variables: Mapping[str, str]) -> bool:
    home = Path(variables.get("HOME") or "~").expanduser()
    places = [home / ".netrc", home / "_netrc", home / f".{name}" / ".netrc"]
    for place in [Path(variables["NETRC"])] if "NETRC" in variables else places:
        try:
            hosts = netrc.netrc(place).hosts
        except (OSError, netrc.NetrcParseError):
            continue
        if any(host in hosts for host in _HOSTS[name]):
            return True
    return False
