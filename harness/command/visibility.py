"""Reach of variables: one that is set in front of a launch command may not come to the training.

In: the command, the variable, the codebase. Out: nothing, or a CommandError that names the script which sets
the variable itself, or the program which is given an environment of its own, and says what to write there.
"""

import os
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from harness.command import programs, shell
from harness.command.launch_command import read
from harness.command.shell import CommandError, ShellText, Simple

_SOURCES = ("source", ".")
_SCRIPTS = (".sh", ".bash")
_ACTIVATE = re.compile(r"activate(?:\.\w+)?|conda\.sh|mamba\.sh")
_CONTAINERS = ("docker", "podman", "nerdctl")
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
        words = [os.path.expandvars(word.value) for word in command.words]
        if words[:1] == ["cd"] and len(words) > 1:
            folder = folder / Path(words[1]).expanduser()
        elif words and words[0] in _SOURCES and len(words) > 1:
            yield folder / Path(words[1]).expanduser(), True, command.words[0].start
        elif programs.starts_a_program(command):
            for word in words:
                if word.endswith(_SCRIPTS):
                    yield folder / Path(word).expanduser(), False, command.words[0].start


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
        words = [word.value for word in command.words]
        if words[:1] == ["unset"] and name in words:
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
    words = [word.value for word in command.words]
    names = [Path(word).name for word in words]
    if not programs.starts_a_program(command):
        return
    is_passed = any(re.search(rf"\b{name}=[\"']?\$\{{?{name}\b", word) for word in words)
    container = next((each for each in _CONTAINERS if each in names[:3]), None)
    fix = ""
    if "env" in names[:3] and _is_cleared(words[names.index("env") + 1 :], name):
        fix = f"write `{name}=VALUE` behind `env`, and not `-u {name}`"
    elif is_passed:
        return
    elif "sudo" in names[:3] and _is_dropped_by_sudo(words[names.index("sudo") + 1 :], name):
        fix = f"write `sudo {name}=${name} …`"
    elif names[0] == "ssh":
        fix = f"write `ssh HOST {name}=${name} …`"
    elif container and {"run", "exec"} & set(words) and not _is_given_to_container(words, name):
        fix = f"write `-e {name}` behind `{container} run`"
    if fix:
        raise CommandError(
            f"env:{name}: `{programs.shown(command)}` starts its program in an environment of its own, "
            f"without {name}: {fix}"
        )


def _is_dropped_by_sudo(words: list[str], name: str) -> bool:
    inner = [word for word in words if not word.startswith("-") and "=" not in word]
    is_kept = any(
        re.fullmatch(r"-\w*E\w*|--preserve-env", word)
        or (word.startswith("--preserve-env=") and name in word.partition("=")[2].split(","))
        for word in words
    )
    is_set = any(word.startswith(f"{name}=") for word in words)
    return bool(inner) and programs.is_program(inner) and (is_set or not is_kept)


def _is_cleared(words: list[str], name: str) -> bool:
    is_cleared = any(word in ("-", "-i", "--ignore-environment") for word in words[:4])
    is_taken_out = f"--unset={name}" in words or any(
        word in ("-u", "--unset") and following == name for word, following in pairwise(words)
    )
    return is_taken_out or (is_cleared and not any(word.startswith(f"{name}=") for word in words))


def _is_given_to_container(words: list[str], name: str) -> bool:
    is_named = any(one in ("-e", "--env") and other == name for one, other in pairwise(words))
    return is_named or f"-e{name}" in words or f"--env={name}" in words
