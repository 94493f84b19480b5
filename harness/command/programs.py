"""What a simple command of a shell text does: start a program, set variables, or only prepare and tidy up.

In: `Simple` commands. Out: whether one may be the training, the variables it assigns, its program's words.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import dropwhile
from pathlib import Path

from harness.command.shell import Simple, Word

_BUILTIN_WORDS = """
cd export source . set unset declare typeset readonly local alias shopt ulimit umask trap wait exit return
: true false test [ [[ echo printf pwd hash type read pushd popd jobs disown kill shift eval
"""
BUILTINS = frozenset(_BUILTIN_WORDS.split())
"""What bash does itself; no program of the name has to be there."""
_HOUSEKEEPING_WORDS = """
mkdir rmdir rm cp mv ln touch chmod chown ls cat tee head tail grep sed awk sort uniq cut tr xargs wc find
date sleep which module pip pip3 git wget curl tar unzip gunzip apt apt-get nvidia-smi hf huggingface-cli
pkill sync df du free ps tmux
"""
_HOUSEKEEPING = (BUILTINS - {"eval"}) | frozenset(_HOUSEKEEPING_WORDS.split())
_HOUSEKEEPING_PARTS = {
    "conda": ("activate", "deactivate", "env", "install", "info", "list"),
    "mamba": ("activate", "install"),
    "micromamba": ("activate", "install"),
    "uv": ("pip", "sync", "venv", "lock", "add"),
    "poetry": ("install", "lock"),
    "ray": ("start", "stop", "status"),
    "wandb": ("login", "online", "offline", "sync"),
    "swanlab": ("login",),
    "docker": ("pull", "login", "rm", "stop", "build"),
    "accelerate": ("config", "env"),
}
EXPORTS = frozenset(("export", "declare", "typeset", "readonly", "local"))
SHELLS = frozenset(("bash", "sh", "zsh", "dash", "ksh"))
_WRAPPER_WORDS = "nohup exec time env nice stdbuf timeout setsid command numactl taskset"
_WRAPPERS = frozenset(_WRAPPER_WORDS.split())
_OF_WRAPPER = re.compile(r"-.*|\d[\d.,-]*[smhd]?|[A-Za-z_]\w*=.*", re.DOTALL)


def unwrapped(words: Sequence[Word]) -> Sequence[Word]:
    """The program's name and its arguments, without `nohup`, `env A=1`, `nice -n 5` and the like in front."""
    while words and words[0].value in _WRAPPERS:
        words = list(dropwhile(lambda word: _OF_WRAPPER.fullmatch(word.value), words[1:]))
    return words


def assignments(command: Simple) -> Iterator[Word]:
    """The words that assign variables."""
    yield from command.assignments
    words = command.words
    behind = words[1:] if words and words[0].value in EXPORTS else words[: len(words) - len(unwrapped(words))]
    yield from (word for word in behind if word.is_assignment)


def starts_a_program(command: Simple) -> bool:
    """True if this command may be the training."""
    return is_program([word.value for word in unwrapped(command.words)])


def is_program(words: Sequence[str]) -> bool:
    """True if these words, of which the first is a program's name, may start the training."""
    if not words:
        return False
    name, rest = Path(words[0]).name, list(words[1:])
    first = next((word for word in rest if not word.startswith("-")), "")
    is_pip = bool(re.fullmatch(r"python[\d.]*", name)) and rest[:2] in (["-m", "pip"], ["-m", "venv"])
    return name not in _HOUSEKEEPING and first not in _HOUSEKEEPING_PARTS.get(name, ()) and not is_pip


def script(words: Sequence[str]) -> str | None:
    """The shell script that these words run, as it is named there; None where they run something else."""
    if is_shell(words):
        words = [word for word in words[1:] if not word.startswith("-")]
    return words[0] if words and words[0].endswith((".sh", ".bash")) else None


def is_shell(words: Sequence[str]) -> bool:
    """True if the first of these words is a shell."""
    return bool(words) and Path(words[0]).name in (*SHELLS, "eval")


def is_shell_text(command: Simple) -> bool:
    """True if the program is (or reaches) a shell that runs the text in one of its arguments."""
    names = [Path(word).name for word in command.values]
    return any(
        name in ("eval", "ssh")
        or (name in SHELLS and any(re.fullmatch(r"-\w*c", word) for word in names[at + 1 :]))
        for at, name in enumerate(names)
    )


def is_exported(commands: Sequence[Simple], name: str) -> bool:
    """True if one of the commands hands a variable on that another has set: `export NAME`, `set -a`."""
    lines = [command.values for command in commands if command.words]
    return any((line[0] in EXPORTS and name in line[1:]) or line[:2] == ["set", "-a"] for line in lines)


def shown(command: Simple) -> str:
    """The first words of a command, for messages."""
    return " ".join(command.values[:3]) + (" …" if len(command.words) > 3 else "")
