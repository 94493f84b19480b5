"""The programs that a shell text starts, with the folder and the variables that each would have.

In: a shell text, a folder, variables. Out: `Call`s. Words that only the shell can expand are marked as
unknown; nothing is run. Shell scripts that the command names are read as far as they are plain commands.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from harness.command import shell
from harness.command.programs import SHELLS
from harness.command.shell import Word

_NO_COMMAND = frozenset(("[", "[["))
_WRAPPER_WORDS = "nohup exec time env nice stdbuf timeout setsid command numactl taskset"
_WRAPPERS = frozenset(_WRAPPER_WORDS.split())
_ELSEWHERE_WORDS = "ssh docker podman srun sbatch mpirun conda mamba micromamba uv poetry pipenv apptainer"
_ELSEWHERE = frozenset(_ELSEWHERE_WORDS.split())
"""Programs behind which another machine, container or environment begins."""
_LAUNCHERS = frozenset(("torchrun", "accelerate", "deepspeed", "ray", "horovodrun"))
_LAUNCHER_MODULES = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch")
_VALUED_PYTHON_FLAGS = frozenset(("-W", "-X"))
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::?-([^}]*))?\}|(\w+))")
_MOST_SCRIPT_BYTES = 200_000


@dataclass(frozen=True)
class Call:
    """One simple command.

    `words`: the program and its arguments, wrappers such as `nohup` left out. `variables`: set in front of it
    or before it. `folder`: where it runs, None where that is unknown. `certain`: False inside loops,
    conditions and after programs that change everything (`conda activate`). `python`: the interpreter that
    an `activate` script put first, if any.
    """

    words: tuple[str, ...]
    variables: Mapping[str, str]
    folder: Path | None
    certain: bool
    python: Path | None = None

    @property
    def program(self) -> str:
        return self.words[0]

    def is_known(self, word: str) -> bool:
        """True if the word is what the program will see."""
        return not re.search(r"[$`*?\[\]{}]", word)


@dataclass(frozen=True)
class PythonProgram:
    """The Python program that a call starts: a script's path or a module's name, and its arguments."""

    call: Call
    script: Path | None
    module: str | None
    arguments: tuple[str, ...]
    launcher: str
    """`python`, or the launcher that starts the workers (`torchrun`, `accelerate`, …)."""


def calls(text: str, folder: Path, environment: Mapping[str, str]) -> tuple[Call, ...]:
    """The simple commands of a shell text, in order; () where it cannot be read."""
    return tuple(_calls(text, Call((), dict(environment), folder, True), depth=0))


def python_programs(found: tuple[Call, ...]) -> Iterator[PythonProgram]:
    """Every Python program the calls start, directly or by a launcher."""
    for call in found:
        name = Path(call.program).name
        if re.fullmatch(r"python[\d.]*", name):
            program = _of_python(call)
        elif name in _LAUNCHERS:
            program = _of_launcher(call, name)
        else:
            program = _script(call, 0, "python") if call.program.endswith(".py") else None
        if program is not None:
            yield program


def _calls(text: str, state: Call, depth: int) -> Iterator[Call]:
    try:
        commands = shell.read(text).commands
    except shell.CommandError:
        return
    for command in commands:
        variables = dict(state.variables)
        for word in command.assignments:
            name, _, value = word.value.partition("=")
            variables[name.rstrip("+")] = _expanded(replace(word, value=value), state.variables)
        words = [_expanded(word, variables) for word in command.words]
        name = words[0] if words else ""
        if not words:
            state = replace(state, variables=variables)
        elif name == "export":
            pairs = (word.partition("=") for word in words[1:] if "=" in word)
            state = replace(state, variables=variables | {key: value for key, _, value in pairs})
        elif name == "cd":
            is_clear = len(words) == 2 and state.folder is not None and state.is_known(words[1])
            state = replace(state, folder=state.folder / words[1] if is_clear and state.folder else None)
        elif name in ("source", ".") and len(words) > 1:
            state = _sourced(state, words[1])
        elif name not in _NO_COMMAND:
            certain = state.certain and not command.is_nested
            yield from _call(replace(state, variables=variables, certain=certain), words, depth)
            if name in _ELSEWHERE and "activate" in words:
                state = replace(state, certain=False)


def _call(state: Call, words: list[str], depth: int) -> Iterator[Call]:
    """The call itself, and those of a shell script that it runs."""
    while words and words[0] in _WRAPPERS:
        words = words[1:]
        while words and (words[0].startswith("-") or re.fullmatch(r"[\d.]+[smhd]?|\w+=.*", words[0])):
            words = words[1:]
    if not words:
        return
    call = replace(state, words=tuple(words))
    yield replace(call, certain=False) if words[0] in _ELSEWHERE else call
    script = words[1] if Path(words[0]).name in SHELLS and len(words) > 1 else words[0]
    if depth == 0 and script.endswith(".sh") and state.folder is not None and call.is_known(script):
        path = state.folder / script
        if path.is_file() and path.stat().st_size < _MOST_SCRIPT_BYTES:
            yield from _calls(path.read_text(encoding="utf-8", errors="replace"), state, depth + 1)


def _expanded(word: Word, variables: Mapping[str, str]) -> str:
    """The word with the variables that are known; others stay as they are written."""

    def value(match: re.Match[str]) -> str:
        found = variables.get(match[1] or match[3]) or match[2]
        return match.group() if found is None else found

    text = word.value if word.is_literal else _VARIABLE.sub(value, word.value)
    return str(Path(text).expanduser()) if re.match(r"~(?:/|$)", text) else text


def _sourced(state: Call, script: str) -> Call:
    if state.folder is None or not state.is_known(script):
        return replace(state, certain=False)
    python = (state.folder / script).parent / "python"
    if Path(script).name == "activate" and python.exists():
        return replace(state, python=python)
    return replace(state, certain=False)


def _of_python(call: Call) -> PythonProgram | None:
    """The program behind an interpreter's own flags."""
    at = 1
    while at < len(call.words) and call.words[at] != "-c":
        word, following = call.words[at], call.words[at + 1 : at + 2]
        if word == "-m" and following and following[0] in _LAUNCHER_MODULES:
            return _of_launcher(replace(call, words=("torchrun", *call.words[at + 2 :])), "torchrun")
        if word == "-m" and following:
            return PythonProgram(call, None, following[0], call.words[at + 2 :], "python")
        if not word.startswith("-"):
            return _script(call, at, "python")
        at += 2 if word in _VALUED_PYTHON_FLAGS else 1
    return None


def _of_launcher(call: Call, launcher: str) -> PythonProgram | None:
    """The first script or module behind the flags of a launcher."""
    for at, word in enumerate(call.words[1:], start=1):
        if word in ("-m", "--module") and at + 1 < len(call.words):
            return PythonProgram(call, None, call.words[at + 1], call.words[at + 2 :], launcher)
        if word.endswith(".py") and not word.startswith("-"):
            return _script(call, at, launcher)
    return None


def _script(call: Call, at: int, launcher: str) -> PythonProgram:
    """The script that word `at` names, its path known where the folder and the word are."""
    is_known = call.folder is not None and call.is_known(call.words[at])
    script = call.folder / call.words[at] if is_known and call.folder else None
    return PythonProgram(call, script, None, call.words[at + 1 :], launcher)
