"""Experiment trackers: the one that the config names has a key, or runs offline. Keys are never shown."""

import netrc
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.doctor.launch import PlannedLaunch
from harness.doctor.types import Finding, fine, problem, warning

_LOGGERS = (
    "trainer.logger",
    "ajet.trainer_common.logger",
    "report_to",
    "training.report_to",
    "logger",
    "log_with",
)


@dataclass(frozen=True)
class Tracker:
    """How a tracker is let in. `hosts`: as they stand in a netrc file; `netrc`: where that may be."""

    key: str
    mode: str
    offline: tuple[str, ...]
    hosts: tuple[str, ...]
    netrc: tuple[str, ...]


_TRACKERS = {
    "wandb": Tracker(
        "WANDB_API_KEY",
        "WANDB_MODE",
        ("offline", "disabled", "dryrun"),
        ("api.wandb.ai",),
        ("~/.netrc", "~/_netrc"),
    ),
    "swanlab": Tracker(
        "SWANLAB_API_KEY",
        "SWANLAB_MODE",
        ("offline", "local", "disabled"),
        ("swanlab.cn", "api.swanlab.cn", "https://api.swanlab.cn", "https://swanlab.cn"),
        ("~/.swanlab/.netrc", "~/.netrc"),
    ),
}


def have_keys(launch: PlannedLaunch) -> Iterator[Finding]:
    """A tracker that is written to over the network has a key."""
    for name in _named(launch):
        tracker = _TRACKERS[name]
        variables = launch.environment
        mode = variables.get(tracker.mode, "").lower()
        if (
            mode in tracker.offline
            or variables.get("WANDB_DISABLED" if name == "wandb" else "", "").lower() == "true"
        ):
            yield fine(f"{name} does not need a key: {tracker.mode} is {mode or 'off'}")
        elif variables.get(tracker.key) or _in_netrc(tracker, variables):
            yield fine(f"{name} has a key")
        else:
            make = warning if launch.prepares or _logs_in(launch, name) else problem
            mend = f"run `{name} login` or export {tracker.key}; without a network set {tracker.mode}=offline"
            yield make(
                f"the config asks for {name}, and there is no key for it: it would ask for one", mend, "auth"
            )


def _named(launch: PlannedLaunch) -> list[str]:
    """The trackers that the settings name."""
    value = launch.settings.get(*_LOGGERS)
    words = value if isinstance(value, (list, tuple)) else re.split(r"[\s,\[\]'\"]+", str(value or ""))
    return [name for name in _TRACKERS if name in words]


def _in_netrc(tracker: Tracker, variables: Mapping[str, str]) -> bool:
    files = [variables["NETRC"]] if "NETRC" in variables else list(tracker.netrc)
    for name in files:
        path = Path(name.replace("~", variables.get("HOME", "~"), 1)).expanduser()
        try:
            hosts = netrc.netrc(path).hosts
        except (OSError, netrc.NetrcParseError):
            continue
        if any(host in hosts for host in tracker.hosts):
            return True
    return False


def _logs_in(launch: PlannedLaunch, name: str) -> bool:
    """Whether the command or the codebase brings a key itself."""
    command = launch.plan["launch_command"] or ""
    return f"{name} login" in command or (launch.codebase / ".env").exists()
