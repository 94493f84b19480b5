"""The variables that all jobs of a sweep share, as they were at the start.

In: the caller's environment, and where a path to the author's code lies in the copy. Out:
`snapshot/environment.json`, secrets by name only; later the variables of a job, and a command as the shell
would expand it with them.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.atomic_write import write_json
from harness.command import read_or_empty
from harness.sweep.plan import SweepError
from monitors.launch import environment_of_caller, is_secret_name

_OF_A_LOGIN = re.compile(
    r"SSH_(?:AUTH_SOCK|AGENT_PID|CLIENT|CONNECTION)|GPG_AGENT_INFO|X?AUTHORITY|XDG_SESSION_\w+|DISPLAY"
    r"|WAYLAND_DISPLAY|WINDOWID|DBUS_SESSION_BUS_ADDRESS|INVOCATION_ID|JOURNAL_STREAM"
)
"""What belongs to the login of the moment: neither frozen nor asked for later."""

_OF_THE_MACHINE = re.compile(r"HOME|TMPDIR|XDG_\w+|(?:AJET|HARNESS)_\w+|PYTHONPATH")
"""Places that the harness and all its runs have in common, wherever they lie, and what is made up apart."""

_NAMED = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_MOST_ROUNDS = 5  # of variables whose values name variables

Moved = Callable[[str], str | None]
"""Where an absolute path lies in the copy; None where the copy has no own one."""


def write(path: Path, moved: Moved, installed: Iterable[str]) -> None:
    """Keep the caller's variables. Those that hold paths to the author's code point into the copy; where
    Python would find the author's modules (`installed`: from where an interpreter takes them), the copy's
    come first."""
    caller = {
        name: value for name, value in environment_of_caller().items() if not _OF_A_LOGIN.fullmatch(name)
    }
    variables = {
        name: value if _OF_THE_MACHINE.fullmatch(name) else _pointing(value, moved)
        for name, value in caller.items()
        if not is_secret_name(name)
    }
    given = [entry for entry in variables.get("PYTHONPATH", "").split(os.pathsep) if entry]
    own = [place for entry in (*installed, *given) if (place := moved(entry)) is not None]
    if wanted := list(dict.fromkeys((*own, *given))):
        variables["PYTHONPATH"] = os.pathsep.join(wanted)
    content = {"variables": variables, "secrets": sorted(set(caller) - set(variables))}
    write_json(path, content, mode=0o600)


def read(path: Path) -> dict[str, str]:
    """The variables of every job of the sweep: those that were frozen, and secrets as they are now. Raises
    SweepError that names the secrets which are not set any more."""
    frozen = _frozen(path)
    now = environment_of_caller()
    missing = [name for name in frozen["secrets"] if name not in now]
    if missing:
        raise SweepError(
            f"the sweep was started with {', '.join(missing)} set, and now that is not; secrets are never "
            "written down: export them again, then `harness resume` the sweep"
        )
    kept = {name: value for name, value in now.items() if _OF_A_LOGIN.fullmatch(name)}
    return {**kept, **frozen["variables"], **{name: now[name] for name in frozen["secrets"]}}


def expanded(command: str, path: Path) -> str:
    """The command with its variables replaced by the values that it gives them itself, or that were frozen;
    the others are left. Raises SweepError."""
    own = read_or_empty(command).values  # what a person does to prepare may be more than is understood here
    values = {key.removeprefix("env:"): value for key, value in own.items() if key.startswith("env:")}
    known: Mapping[str, str] = {**_frozen(path)["variables"], **values}
    for _ in range(_MOST_ROUNDS):
        text = _NAMED.sub(lambda found: known.get(found[1] or found[2], found[0]), command)
        if text == command:
            break
        command = text
    return command


def _pointing(value: str, moved: Moved) -> str:
    """A path, or several with `:` between them, pointing into the copy where it has its own."""
    return os.pathsep.join(moved(entry) or entry for entry in value.split(os.pathsep))


def _frozen(path: Path) -> dict[str, Any]:
    try:
        frozen: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SweepError(f"{path} cannot be read, so the runs have no environment: {error}") from error
    return frozen
