"""What a simple command of a shell text does: start a program, set variables, or only prepare and tidy up.

In: `Simple` commands. Out: whether one may be the training, the variables it assigns, its program's words.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from harness.command.shell import Simple, Word

_HOUSEKEEPING_WORDS = """
cd export source . set unset declare typeset readonly local alias shopt ulimit umask trap wait exit return
: true false test [ [[ echo printf mkdir rmdir rm cp mv ln touch chmod chown ls pwd cat tee head tail
grep sed awk sort uniq cut tr xargs wc find date sleep which hash type read pushd popd module pip pip3 git
wget curl tar unzip gunzip apt apt-get nvidia-smi hf huggingface-cli kill pkill sync df du free ps tmux jobs
disown
"""
_HOUSEKEEPING = frozenset(_HOUSEKEEPING_WORDS.split())
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
_EXPORTS = frozenset(("export", "declare", "typeset", "readonly", "local"))
SHELLS = frozenset(("bash", "sh", "zsh", "dash", "ksh"))


def starts_a_program(command: Simple) -> bool:
    """True if this command may be the training."""
    return bool(command.words) and is_program([word.value for word in command.words])


def is_program(words: Sequence[str]) -> bool:
    """True if these words, of which the first is a program's name, may start the training."""
    name, rest = Path(words[0]).name, list(words[1:])
    first = next((word for word in rest if not word.startswith("-")), "")
    is_pip = bool(re.fullmatch(r"python[\d.]*", name)) and rest[:2] in (["-m", "pip"], ["-m", "venv"])
    return name not in _HOUSEKEEPING and first not in _HOUSEKEEPING_PARTS.get(name, ()) and not is_pip


def script(command: Simple) -> str | None:
    """The shell script that the command runs, as it is named there; None where it runs something else."""
    words = [word.value for word in command.words]
    while words and words[0] in ("exec", "nohup", "time", "command"):
        words = words[1:]
    if words and Path(words[0]).name in (*SHELLS, "eval"):
        words = [word for word in words[1:] if not word.startswith("-")]
    return words[0] if words and words[0].endswith((".sh", ".bash")) else None


def is_shell_text(command: Simple) -> bool:
    """True if the program is (or reaches) a shell that runs the text in one of its arguments."""
    names = [Path(word.value).name for word in command.words]
    return any(
        name in ("eval", "ssh")
        or (name in SHELLS and any(re.fullmatch(r"-\w*c", word) for word in names[at + 1 :]))
        for at, name in enumerate(names)
    )


def is_shell(command: Simple) -> bool:
    """True if the command is a shell itself."""
    return bool(command.words) and Path(command.words[0].value).name in (*SHELLS, "eval")


def assignments(command: Simple) -> Iterator[tuple[Word, bool]]:
    """The words that assign variables, and whether for this command alone."""
    program = command.words[0].value if command.words else ""
    yield from ((word, bool(command.words)) for word in command.assignments)
    if program in _EXPORTS:
        yield from ((word, False) for word in command.words[1:] if word.is_assignment)
    if program == "env":
        yield from ((word, True) for word in _behind_env(command) if word.is_assignment)


def is_exported(commands: Sequence[Simple], name: str) -> bool:
    """True if one of the commands hands a variable on that another has set: `export NAME`, `set -a`."""
    lines = [[word.value for word in command.words] for command in commands]
    return any(
        (words[:1] and words[0] in _EXPORTS and name in words[1:])
        or words[:2] == ["set", "-a"]
        or words[:3] == ["set", "-o", "allexport"]
        for words in lines
    )


def own_words(command: Simple) -> tuple[Word, ...]:
    """The program's name and its arguments, without an `env` in front."""
    words = command.words
    if words and words[0].value == "env":
        words = words[1 + len(_behind_env(command)) :] or words
    return words


def _behind_env(command: Simple) -> list[Word]:
    return list(takewhile(lambda word: word.is_assignment or word.value.startswith("-"), command.words[1:]))


def shown(command: Simple) -> str:
    """The first words of a command, for messages."""
    words = [word.value for word in command.words[:3]]
    return " ".join(words) + (" …" if len(command.words) > len(words) else "")
