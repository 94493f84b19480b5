"""Experiment trackers: the one that the config names has a key, or runs offline. Keys are never shown."""

import netrc
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.doctor.findings import Finding, fine, problem, warning
from harness.doctor.launch import PlannedLaunch

_LOGGERS = "trainer.logger ajet.trainer_common.logger report_to training.report_to logger log_with"


@dataclass(frozen=True)
class Tracker:
    """How a tracker is let in: variables of its key and mode, modes without a network, hosts as they stand in
    a netrc file, and where that may be."""

    key: str
    mode: str
    offline: tuple[str, ...]
    hosts: tuple[str, ...]
    netrc: tuple[str, ...]


_WANDB = ("api.wandb.ai",)
_SWANLAB = ("swanlab.cn", "api.swanlab.cn", "https://api.swanlab.cn", "https://swanlab.cn")
_QUIET = ("offline", "disabled", "dryrun", "local")
_TRACKERS = {
    "wandb": Tracker("WANDB_API_KEY", "WANDB_MODE", _QUIET[:3], _WANDB, ("~/.netrc", "~/_netrc")),
    "swanlab": Tracker(
        "SWANLAB_API_KEY", "SWANLAB_MODE", _QUIET, _SWANLAB, ("~/.swanlab/.netrc", "~/.netrc")
    ),
}


def have_keys(launch: PlannedLaunch) -> Iterator[Finding]:
    """A tracker that is written to over the network has a key."""
    variables = launch.environment
    value = launch.settings.get(*_LOGGERS.split())
    words = value if isinstance(value, (list, tuple)) else re.split(r"[\s,\[\]'\"]+", str(value or ""))
    for name, tracker in _TRACKERS.items():
        if name not in words:
            continue
        mode = variables.get(tracker.mode, "").lower()
        is_off = name == "wandb" and variables.get("WANDB_DISABLED", "").lower() == "true"
        if mode in tracker.offline or is_off:
            yield fine(f"{name} does not need a key: {tracker.mode} is {mode or 'off'}")
        elif variables.get(tracker.key) or _in_netrc(tracker, variables):
            yield fine(f"{name} has a key")
        else:
            command = launch.plan["launch_command"] or ""
            brings_one = f"{name} login" in command or (launch.codebase / ".env").exists()
            make = warning if launch.prepares or brings_one else problem
            text = f"the config asks for {name}, and there is no key for it: it would ask for one"
            fix = f"run `{name} login` or export {tracker.key}; without a network set {tracker.mode}=offline"
            yield make(text, fix, "auth")


def _in_netrc(tracker: Tracker, variables: Mapping[str, str]) -> bool:
    for name in [variables["NETRC"]] if "NETRC" in variables else tracker.netrc:
        path = Path(name.replace("~", variables.get("HOME", "~"), 1)).expanduser()
        try:
            hosts = netrc.netrc(path).hosts
        except (OSError, netrc.NetrcParseError):
            continue
        if any(host in hosts for host in tracker.hosts):
            return True
    return False
