"""Which of the commands in a shell text is the training: the one that starts a program, beside those that
only prepare, tidy up or print.
"""

import re
from pathlib import Path

from harness.sweep.types import SweepError
from harness.sweep.varying.shell import Simple

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
_SHELLS = frozenset(("bash", "sh", "zsh", "dash", "ksh", "eval"))


def starts_a_program(command: Simple) -> bool:
    """Whether this command may be the training."""
    if not command.words:
        return False
    program, *rest = (word.value for word in command.words)
    name = Path(program).name
    first = next((word for word in rest if not word.startswith("-")), "")
    is_pip = bool(re.fullmatch(r"python[\d.]*", name)) and rest[:2] in (["-m", "pip"], ["-m", "venv"])
    return name not in _HOUSEKEEPING and first not in _HOUSEKEEPING_PARTS.get(name, ()) and not is_pip


def script(command: Simple) -> str | None:
    """The shell script that the command runs, as it is named there; None where it runs something else."""
    words = [word.value for word in command.words]
    while words and words[0] in ("exec", "nohup", "time", "command"):
        words = words[1:]
    if words and Path(words[0]).name in _SHELLS:
        words = [word for word in words[1:] if not word.startswith("-")]
    return words[0] if words and words[0].endswith((".sh", ".bash")) else None


def is_shell_text(command: Simple) -> bool:
    """Whether the program is (or reaches) a shell that runs the text in one of its arguments."""
    names = [Path(word.value).name for word in command.words]
    return any(
        name in ("eval", "ssh")
        or (name in _SHELLS and any(re.fullmatch(r"-\w*c", word) for word in names[at + 1 :]))
        for at, name in enumerate(names)
    )


def training(commands: tuple[Simple, ...], what: str) -> Simple:
    """The one command that starts a program. `what` is to be added to it. Raises SweepError where that is not
    clear."""
    found = [command for command in commands if starts_a_program(command)]
    mend = f"write {what} into the launch command with its present value"
    if not found:
        raise SweepError(f"{what} is not in the launch command, and no program is started there: {mend}")
    if len(found) > 1:
        named = " and ".join(f"`{shown(command)}`" for command in found[:3])
        raise SweepError(
            f"{what} is not in the launch command, which starts {named}: {mend}, where it belongs"
        )
    (command,) = found
    if command.is_nested:
        raise SweepError(
            f"{what} is not in the launch command, whose program `{shown(command)}` is started in a loop "
            f"or a condition: {mend}"
        )
    if is_shell_text(command):
        raise SweepError(
            f"{what} is not in the launch command, whose program stands inside the quotes of "
            f"`{shown(command)}`: write the command without them, with {what} in it"
        )
    if command.reads_here and not any(word.value == "-" for word in command.words):
        raise SweepError(
            f"{what} is not in the launch command, and `{shown(command)}` reads its program from a "
            f"here-document: {mend}"
        )
    return command


def shown(command: Simple) -> str:
    """The first words of a command, for messages."""
    words = [word.value for word in command.words[:3]]
    return " ".join(words) + (" …" if len(command.words) > len(words) else "")
