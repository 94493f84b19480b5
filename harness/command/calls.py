"""The programs that a shell text starts, with the folder and the variables that each would have.

In: a shell text, a folder, variables. Out: `Call`s. Words that only the shell can expand are marked as
unknown; nothing is run. Shell scripts that the command names are read as far as they are plain commands.
"""

import re
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from harness.command import programs, shell
from harness.command.shell import Simple, Word

_ELSEWHERE_WORDS = "ssh docker podman srun sbatch mpirun conda mamba micromamba uv poetry pipenv apptainer"
_ELSEWHERE = frozenset(_ELSEWHERE_WORDS.split())
"""Programs behind which another machine, container or environment begins."""
_LAUNCHERS = frozenset(("torchrun", "accelerate", "deepspeed", "ray", "horovodrun"))
_LAUNCHER_MODULES = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch")
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::?-([^}]*))?\}|(\w+))")
_ACTIVATE = re.compile(r"activate(?:\.\w+)?|conda\.sh|mamba\.sh")
_MOST_SCRIPT_BYTES = 200_000
_DEEPEST = 4  # scripts that run scripts


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

    def path(self, word: str) -> Path | None:
        """The path that a word names, where the folder and the word are known."""
        return self.folder / word if self.folder is not None and self.is_known(word) else None


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


def _calls(text: str, state: Call, depth: int) -> Generator[Call, None, Call]:
    """The calls of a text, and what is known behind it."""
    try:
        commands = shell.read(text).commands
    except shell.CommandError:
        return state
    for command in commands:
        variables = _assigned(command, text, state.variables)
        words = [_expanded(word, variables) for word in programs.unwrapped(command.words)]
        name = words[0] if words else ""
        if not words or name in programs.EXPORTS:
            state = replace(state, variables=variables)
        elif name == "unset":
            state = replace(state, variables={key: variables[key] for key in variables if key not in words})
        elif name == "cd":
            state = replace(state, folder=state.path(words[1]) if len(words) == 2 else None)
        elif name in ("source", ".") and len(words) > 1:
            state = yield from _sourced(words[1], replace(state, certain=False), state.certain, depth)
        elif name not in ("[", "[["):
            certain = state.certain and not command.is_nested
            yield from _call(replace(state, variables=variables, certain=certain), words, depth)
            if name in _ELSEWHERE and "activate" in words:
                state = replace(state, certain=False)
    return state


def _assigned(command: Simple, text: str, variables: Mapping[str, str]) -> dict[str, str]:
    """The variables behind an assignment. One that is asked for first (`[ -z "$X" ]`) keeps its value."""
    found = dict(variables)
    for word in programs.assignments(command):
        name, _, value = word.value.partition("=")
        name = name.rstrip("+")
        if name not in variables or not re.search(rf"(?:\[|\btest)\s[^\n]*\$\{{?{name}\b", text):
            found[name] = _expanded(replace(word, value=value), variables)
    return found


def _expanded(word: Word, variables: Mapping[str, str]) -> str:
    """The word with the variables that are known; others stay as they are written."""

    def value(match: re.Match[str]) -> str:
        found = variables.get(match[1] or match[3]) or match[2]
        return match.group() if found is None else found

    text = word.value if word.is_literal else _VARIABLE.sub(value, word.value)
    return str(Path(text).expanduser()) if re.match(r"~(?:/|$)", text) else text


def _sourced(script: str, state: Call, certain: bool, depth: int) -> Generator[Call, None, Call]:
    """The calls of a script that the same shell reads; one that cannot be read now may set any variable."""
    path = state.path(script)
    if _ACTIVATE.fullmatch(Path(script).name):
        python = path.parent / "python" if path is not None and path.name == "activate" else None
        return replace(state, python=python, certain=certain) if python and python.exists() else state
    if (text := _script_text(path, depth)) is None:
        return replace(state, variables=dict.fromkeys(state.variables, f"$(. {script})"))
    return (yield from _calls(text, state, depth + 1))


def _call(state: Call, words: list[str], depth: int) -> Iterator[Call]:
    """The call itself, and those of a shell script that it runs."""
    call = replace(state, words=tuple(words), certain=state.certain and words[0] not in _ELSEWHERE)
    yield call
    script = programs.script(words)
    if script is not None and (text := _script_text(state.path(script), depth)) is not None:
        yield from _calls(text, state, depth + 1)


def _script_text(path: Path | None, depth: int) -> str | None:
    """The text of a shell script; None where it cannot be read, or is too deep or large to be followed."""
    if path is None or depth == _DEEPEST or not path.is_file() or path.stat().st_size > _MOST_SCRIPT_BYTES:
        return None
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def python_programs(found: tuple[Call, ...]) -> Iterator[PythonProgram]:
    """Every Python program the calls start, directly or by a launcher."""
    for call in found:
        name = Path(call.program).name
        is_python = re.fullmatch(r"python[\d.]*", name) is not None
        if is_python or name in _LAUNCHERS:
            yield from _behind(call, "python" if is_python else name)
        elif name.endswith(".py"):
            yield PythonProgram(call, call.path(call.program), None, call.words[1:], "python")


def _behind(call: Call, launcher: str) -> Iterator[PythonProgram]:
    """The first script or module behind the flags of an interpreter or a launcher."""
    for at, word in enumerate(call.words[1:], start=1):
        following, arguments = call.words[at + 1 : at + 2], call.words[at + 2 :]
        is_python = launcher == "python"
        is_script = call.words[at - 1] not in ("-W", "-X") if is_python else word.endswith(".py")
        if is_python and word == "-c":
            return
        if word in ("-m", "--module") and following and following[0] in _LAUNCHER_MODULES:
            yield from _behind(replace(call, words=("torchrun", *arguments)), "torchrun")
            return
        if word in ("-m", "--module") and following:
            yield PythonProgram(call, None, following[0], arguments, launcher)
            return
        if is_script and not word.startswith("-"):
            yield PythonProgram(call, call.path(word), None, call.words[at + 1 :], launcher)
            return
