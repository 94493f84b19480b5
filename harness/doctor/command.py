"""A launch command as the programs it starts: words, variables, working directory.

In: the shell text of a blueprint. Out: `Call`s. Words that only the shell can expand are marked as unknown;
nothing is run. Shell scripts that the command names are read as far as they are plain commands.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from harness.blueprint.commands import join_lines

_OPEN, _CLOSE = (
    frozenset(("if", "while", "until", "for", "case", "select", "{")),
    frozenset(("fi", "done", "esac", "}")),
)
_BEFORE_A_COMMAND = frozenset(("if", "elif", "while", "until", "then", "else", "do", "!", "{"))
_NO_COMMAND = frozenset(("for", "case", "select", "function", "[", "[[", *_CLOSE))
_WRAPPER_WORDS = "nohup exec time env nice stdbuf timeout setsid command numactl taskset"
_WRAPPERS = frozenset(_WRAPPER_WORDS.split())
_ELSEWHERE_WORDS = """
ssh docker podman srun sbatch mpirun conda mamba micromamba uv poetry pipenv apptainer
"""
_ELSEWHERE = frozenset(_ELSEWHERE_WORDS.split())
"""Programs behind which another machine, container or environment begins."""
_SHELLS = frozenset(("bash", "sh", "zsh", "dash"))
_LAUNCHERS = frozenset(("torchrun", "accelerate", "deepspeed", "ray", "horovodrun"))
_VALUED_PYTHON_FLAGS = frozenset(("-W", "-X"))
_SEPARATORS = frozenset(";&|()\n")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::?-([^}]*))?\}|(\w+))")
_MOST_SCRIPT_BYTES = 200_000
_UNKNOWN = "$?"
"""Stands for the output of a command, which only the shell knows."""


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
        """Whether the word is what the program will see."""
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
            program = _of_python(call, call.words[1:], "python")
        elif name in _LAUNCHERS:
            program = _of_launcher(call, name)
        elif call.program.endswith(".py"):
            program = PythonProgram(call, _path(call, call.program), None, call.words[1:], "python")
        else:
            continue
        if program is not None:
            yield program


def _calls(text: str, state: Call, depth: int) -> Iterator[Call]:
    if "<<" in text:
        return
    try:
        tokens = _tokens(_without_substitutions(join_lines(text)))
    except ValueError:
        return
    nesting = 0
    for words in _split(tokens):
        variables = dict(state.variables)
        words = [_expand(word, variables) for word in words]
        while words and words[0] in _BEFORE_A_COMMAND:
            nesting += words[0] in _OPEN
            words = words[1:]
        while words and (match := _ASSIGNMENT.fullmatch(words[0])):
            variables[match[1]] = match[2]
            words = words[1:]
        if not words:
            state = replace(state, variables=variables)
        elif words[0] == "export":
            matches = [match for word in words[1:] if (match := _ASSIGNMENT.fullmatch(word))]
            state = replace(state, variables={**variables, **{found[1]: found[2] for found in matches}})
        elif words[0] in _NO_COMMAND:
            nesting += (words[0] in _OPEN) - (words[0] in _CLOSE)
        elif words[0] == "cd":
            state = replace(state, folder=_changed(state, words))
        elif words[0] in ("source", ".") and len(words) > 1:
            state = _sourced(state, words[1])
        else:
            certain = state.certain and nesting == 0
            yield from _call(replace(state, variables=variables, certain=certain), words, depth)
            if words[0] in _ELSEWHERE and "activate" in words:
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
    script = words[1] if Path(words[0]).name in _SHELLS and len(words) > 1 else words[0]
    if depth == 0 and script.endswith(".sh") and state.folder is not None and call.is_known(script):
        path = state.folder / script
        if path.is_file() and path.stat().st_size < _MOST_SCRIPT_BYTES:
            yield from _calls(path.read_text(encoding="utf-8", errors="replace"), state, depth + 1)


def _without_substitutions(text: str) -> str:
    """The text with `$(…)` and backticks replaced by something unknown. Raises ValueError where one is not
    closed."""
    found, position, quote = [], 0, ""
    while position < len(text):
        char, end = text[position], position + 1
        if char == "\\" and quote != "'":
            end += 1
        elif char in "'\"" and quote in ("", char):
            quote = "" if quote else char
        elif quote != "'" and (char == "`" or text.startswith("$(", position)):
            end = text.index("`", end) + 1 if char == "`" else _closing(text, end)
            found.append(_UNKNOWN)
            position = end
            continue
        found.append(text[position:end])
        position = end
    return "".join(found)


def _closing(text: str, start: int) -> int:
    """The position behind the `)` that closes the `(` at `start`."""
    depth = 0
    for match in re.compile(r"[()]").finditer(text, start):
        depth += 1 if match.group() == "(" else -1
        if depth == 0:
            return match.end()
    raise ValueError("a `$(` is not closed")


def _tokens(text: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    return list(lexer)


def _split(tokens: list[str]) -> Iterator[list[str]]:
    """Words between separators; redirections are left out."""
    words: list[str] = []
    skip = False
    for token in tokens:
        if token and set(token) <= _SEPARATORS | set("<>"):
            if set(token) & set("<>"):
                skip = True
                if words and words[-1].isdigit():
                    words.pop()
                continue
            if words:
                yield words
            words = []
        elif skip:
            skip = False
        else:
            words.append(token)
    if words:
        yield words


def _expand(word: str, variables: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        found = variables.get(match[1] or match[3]) or match[2]
        return match.group() if found is None else found

    expanded = _VARIABLE.sub(value, word)
    return str(Path(expanded).expanduser()) if re.match(r"~(?:/|$)", expanded) else expanded


def _changed(state: Call, words: list[str]) -> Path | None:
    if len(words) != 2 or state.folder is None or not state.is_known(words[1]):
        return None
    return state.folder / words[1]


def _sourced(state: Call, script: str) -> Call:
    if state.folder is None or not state.is_known(script):
        return replace(state, certain=False)
    python = (state.folder / script).parent / "python"
    if Path(script).name == "activate" and python.exists():
        return replace(state, python=python)
    return replace(state, certain=False)


def _of_python(call: Call, words: tuple[str, ...], launcher: str) -> PythonProgram | None:
    """The program behind an interpreter's own flags."""
    position = 0
    while position < len(words):
        word = words[position]
        if word == "-m" and position + 1 < len(words):
            module, rest = words[position + 1], words[position + 2 :]
            if module in ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch"):
                return _of_launcher(replace(call, words=("torchrun", *rest)), "torchrun")
            return PythonProgram(call, None, module, rest, launcher)
        if word == "-c":
            return None
        if not word.startswith("-"):
            return PythonProgram(call, _path(call, word), None, words[position + 1 :], launcher)
        position += 2 if word in _VALUED_PYTHON_FLAGS else 1
    return None


def _of_launcher(call: Call, launcher: str) -> PythonProgram | None:
    """The first script or module behind the flags of a launcher."""
    for position, word in enumerate(call.words[1:], start=1):
        rest = call.words[position + 1 :]
        if word in ("-m", "--module") and rest:
            return PythonProgram(call, None, rest[0], rest[1:], launcher)
        if word.endswith(".py") and not word.startswith("-"):
            return PythonProgram(call, _path(call, word), None, rest, launcher)
    return None


def _path(call: Call, word: str) -> Path | None:
    return call.folder / word if call.folder is not None and call.is_known(word) else None
