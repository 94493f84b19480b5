"""Reach of variables: one that is set in front of a launch command may not come to the training.

In: the command, the variable, the codebase. Out: nothing, or a CommandError that names the script which sets
the variable itself, or the program which is given an environment of its own, and says what to write there.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from harness.command import programs, shell
from harness.command.launch_command import read
from harness.command.shell import CommandError, ShellText, Simple

_ACTIVATE = re.compile(r"activate(?:\.\w+)?|conda\.sh|mamba\.sh")
_OWN_ENVIRONMENT = {
    "env": "write `{0}=VALUE` behind `env`, and not `-u {0}`",
    "sudo": "write `sudo {0}=${0} …`",
    "ssh": "write `ssh HOST {0}=${0} …`",
    **dict.fromkeys(("docker", "podman", "nerdctl"), "write `-e {0}` behind it"),
}
"""Programs that start others in an environment of their own, and how these are given a variable."""
_DEEPEST = 4  # scripts that run scripts


def check_reaches(command: str, name: str, codebase: Path) -> None:
    """Refuse a variable that the training would not see, or see with another value than it is given. Raises
    CommandError."""
    launch = read(command)
    start = launch.place_of(f"env:{name}")
    for each in launch.shell_text.commands:
        _refuse_own_environment(each, name)
    for script, is_sourced, place in _scripts(launch.shell_text, codebase):
        if is_sourced and start is not None and start > place:
            continue  # what the command sets behind it holds
        fix = f"; write `export {name}=…` behind it in the launch command" if is_sourced else ""
        if not script.is_file():
            if is_sourced and not _ACTIVATE.fullmatch(script.name):
                raise CommandError(
                    f"env:{name}: {script} cannot be read now, and may set {name} for all runs alike{fix}"
                )
        elif found := _assigned(script, name, codebase):
            raise CommandError(
                f"env:{name}: {found}, so that all runs would train with the same value: write "
                f"{name}=${{{name}:-VALUE}} there, or leave it out{fix}"
            )


def _scripts(text: ShellText, folder: Path) -> Iterator[tuple[Path, bool, int]]:
    """The shell scripts that a text runs: (file, whether in the same shell, where in the text)."""
    for command in text.commands:
        words = [os.path.expanduser(os.path.expandvars(word)) for word in command.values]  # noqa: PTH111
        if words[:1] == ["cd"] and len(words) > 1:
            folder = folder / words[1]
        elif words and words[0] in ("source", ".") and len(words) > 1:
            yield folder / words[1], True, command.words[0].start
        elif programs.starts_a_program(command):
            scripts = (word for word in words if word.endswith((".sh", ".bash")))
            yield from ((folder / word, False, command.words[0].start) for word in scripts)


def _assigned(script: Path, name: str, folder: Path, depth: int = 0) -> str:
    """Where a script sets the variable whatever it was before, as `run.sh:3 sets LR (LR=1)`; "" where it
    does not."""
    try:
        content = script.read_text(encoding="utf-8", errors="replace")
        text = shell.read(content)
    except OSError as error:
        return f"{script} cannot be read ({error.strerror})"
    except CommandError as error:
        return f"{script.name} cannot be read ({error}), and names {name}" if name in content else ""
    is_asked = re.search(rf"(?:\[|\btest)\s[^\n]*\$\{{?{name}\b", content) is not None
    for command in text.commands:
        if command.values[:1] == ["unset"] and name in command.values:
            return f"{script.name} unsets {name}"
        for word, _ in programs.assignments(command):
            is_own = not re.search(rf"\$\{{?{name}\b", word.value)
            if word.value.startswith(f"{name}=") and is_own and not is_asked:
                return f"{script.name}:{text.line(word.start)} sets {name} itself ({word.value})"
    if depth < _DEEPEST:
        inner = (one for one, _, _ in _scripts(text, folder) if one.is_file())
        return next(filter(None, (_assigned(one, name, folder, depth + 1) for one in inner)), "")
    return ""


def _refuse_own_environment(command: Simple, name: str) -> None:
    """Refuse a program with an environment of its own that is not given the variable."""
    words = command.values
    program = next(
        (each for each in (Path(word).name for word in words[:3]) if each in _OWN_ENVIRONMENT), None
    )
    if program is None or not programs.starts_a_program(command):
        return
    behind = words[[Path(word).name for word in words].index(program) + 1 :]
    text = " ".join(behind)
    is_set = re.search(rf"(?:^|\s){name}=", text) is not None
    if re.search(rf"\b{name}=[\"']?\$\{{?{name}\b", text):
        return
    if program == "env":
        is_cleared = re.match(r"(?:\S+ ){0,3}(?:-|-i|--ignore-environment)(?:\s|$)", text)
        is_taken_out = re.search(rf"(?:^|\s)(?:-u ?|--unset=){name}\b", text)
        is_lost = bool(is_taken_out or (is_cleared and not is_set))
    elif program == "sudo":
        inner = [word for word in behind if not word.startswith("-") and "=" not in word]
        keeps = rf"(?:^|\s)(?:-\w*E\w*|--preserve-env(?:=(?:\S+,)?{name}(?:,\S+)?)?)(?=\s|$)"
        is_lost = bool(inner) and programs.is_program(inner) and (is_set or not re.search(keeps, text))
    elif program == "ssh":
        is_lost = True
    else:
        is_given = re.search(rf"(?:^|\s)(?:-e ?|--env[ =]){name}(?=\s|$)", text)
        is_lost = bool({"run", "exec"} & set(behind)) and not is_given
    if is_lost:
        raise CommandError(
            f"env:{name}: `{programs.shown(command)}` starts its program in an environment of its own, "
            f"without {name}: {_OWN_ENVIRONMENT[program].format(name)}"
        )
