"""The interpreter: it is there, it runs, it is new enough; a program's sources are valid Python."""

import os
from collections.abc import Iterator

from harness.doctor.interpreter_probe import ProbeError
from harness.doctor.launch import PlannedLaunch
from harness.doctor.types import Finding, fine, problem, warning

_OLDEST_FOR_THE_TRAINER = (3, 10)
_OLDEST_KEPT_UP = (3, 9)


def runs(launch: PlannedLaunch) -> Iterator[Finding]:
    """The interpreter exists, is executable, starts, and is of a usable version."""
    python = launch.python
    if not launch.is_bundled and not launch.programs and not python.exists():
        return  # the command runs no Python that we can see
    if not python.is_file():
        what = "does not exist"
        if python.is_dir():
            what = "is a folder"
        elif python.is_symlink():
            what = f"is a link to {python.readlink()}, which is not there"
        yield problem(
            f"the Python {python} {what}", "name the executable under [exp_venv_exe]", "path_not_found"
        )
        return
    if not os.access(python, os.X_OK):
        yield problem(f"the Python {python} cannot be executed", f"run `chmod +x {python}`", "permission")
        return
    probe = launch.probe()
    if isinstance(probe, ProbeError):
        yield problem(
            f"the Python {python} {probe.reason}",
            "make its environment again, or name another",
            "path_not_found",
        )
        return
    shown = ".".join(map(str, probe.version))
    if launch.is_bundled and probe.version[:2] < _OLDEST_FOR_THE_TRAINER:
        yield problem(
            f"{python} is Python {shown}",
            "the bundled trainer needs 3.10 or newer: name another",
            "version_skew",
        )
    elif probe.version[:2] < _OLDEST_KEPT_UP:
        yield warning(
            f"{python} is Python {shown}, which current packages do not support",
            "use 3.10 or newer",
            "version_skew",
        )
    else:
        yield fine(f"{python} runs: Python {shown}")


def sources(launch: PlannedLaunch) -> Iterator[Finding]:
    """The program and the local files it imports are valid Python, and the variables they need are set."""
    wanted = launch.wanted()
    for file, why in wanted.unreadable:
        yield problem(
            f"{launch.shown(file)} is no valid Python: {why}",
            "correct it there",
            "config_error",
        )
    for name, where in wanted.variables.items():
        if name not in launch.environment:
            yield warning(
                f"{where} reads the variable {name}, which the training would not have",
                f"export {name} before the start (keys of language models need `--pass-key {name}`)",
                "auth" if name.endswith(("KEY", "TOKEN")) else "config_error",
            )
    if wanted.trees and not wanted.unreadable:
        yield fine(f"{len(wanted.trees)} source file(s) of the program parse")
