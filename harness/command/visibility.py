"""Reach of variables: one that is set in front of a launch command may not come to the training.

In: the command, the variable, the codebase. Out: nothing, or a CommandError that names the program which sees
another value, or is given an environment of its own, and says what to write there.
"""

import os
import re
from pathlib import Path

from harness.command import programs
from harness.command.calls import calls
from harness.command.launch_command import read
from harness.command.shell import CommandError, Simple

_CONTAINER = (
    r"(?<!\S)(?:run|exec)\s(?!.*(?<!\S)(?:-e ?|--env[ =])NAME(?!\S))",
    "write `-e NAME` behind it",
)
_OWN_ENVIRONMENT = {
    "env": (
        r"(?<!\S)(?:-u ?|--unset=)NAME\b|^(?:\S+ ){0,3}(?:-|-i|--ignore-environment)(?!\S)(?!.*\bNAME=)",
        "write `NAME=VALUE` behind `env`, and not `-u NAME`",
    ),
    "sudo": (
        r"(?<!\S)NAME=|^(?!.*(?<!\S)(?:-\w*E\w*|--preserve-env(?:=(?:\S+,)?NAME(?:,\S+)?)?)(?!\S))",
        "write `sudo NAME=$NAME …`",
    ),
    "ssh": ("", "write `ssh HOST NAME=$NAME …`"),
    **dict.fromkeys(("docker", "podman", "nerdctl"), _CONTAINER),
}
"""Programs that start others in an environment of their own: words by which the variable NAME is lost, and
how it is handed on."""
_GIVEN = "given-by-the-run"


def check_reaches(command: str, name: str, codebase: Path) -> None:
    """Raise CommandError for a variable that the training would not see, or see with another value."""
    given = read(command).with_setting(f"env:{name}", _GIVEN)
    for each in given.shell_text.commands:
        _refuse_own_environment(each, name)
    for call in calls(given.text, codebase, os.environ):
        seen = call.variables.get(name)
        if programs.is_program(call.words) and seen != _GIVEN:
            what = f"sees {name}={seen}" if seen else f"does not see {name}"
            raise CommandError(
                f"env:{name}: `{' '.join(call.words[:3])}` {what} whatever it is given, so that all runs "
                f"would be alike: write {name}=${{{name}:-VALUE}} where it is set, or write "
                f"`export {name}=…` behind it in the launch command"
            )


def _refuse_own_environment(command: Simple, name: str) -> None:
    """Refuse a program with an environment of its own that is not given the variable."""
    names = [Path(word).name for word in command.values]
    at = next((at for at, each in enumerate(names[:3]) if each in _OWN_ENVIRONMENT), None)
    if at is None or not programs.starts_a_program(command):
        return
    behind = command.values[at + 1 :]
    inner = [word for word in behind if not word.startswith("-") and "=" not in word]
    is_handed_on = re.search(rf"\b{name}=[\"']?\$\{{?{name}\b", " ".join(behind))
    lost, fix = (text.replace("NAME", name) for text in _OWN_ENVIRONMENT[names[at]])
    is_lost = re.search(lost, " ".join(behind), re.DOTALL) and not is_handed_on
    if is_lost and inner and programs.is_program(inner):
        raise CommandError(
            f"env:{name}: `{programs.shown(command)}` starts its program in an environment of its own, "
            f"without {name}: {fix}"
        )
