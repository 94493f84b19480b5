"""What a launch command sets: flags and overrides of the programs it starts, and variables.

In: the text of a launch command. Out: `Given`, by the names that a sweep gives its keys (`arg:--lr`,
`arg:optim.lr`, `env:NAME`). Read word by word as a shell does, so that a variable is never taken for a flag.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.command import programs, shell
from harness.command.shell import Simple

OPTION = re.compile(r"--?[A-Za-z]")
_OVERRIDE = re.compile(r"\+{0,2}([A-Za-z_][\w./@-]*)=(.*)", re.DOTALL)
_DELETED = re.compile(r"~([A-Za-z_][\w./@-]*)(?:=.*)?", re.DOTALL)
_ATTACHED = re.compile(r"(-[A-Za-z])(\d[\w.]*)")
_SCRIPT = re.compile(r"\S+\.(?:py|sh|bash)")
_PATH = re.compile(r".*/.*|.*\.[A-Za-z]\w{0,7}|-", re.DOTALL)
_STARTS = re.compile(r"python[\d.]*|torchrun|accelerate|deepspeed|bash|sh|uv|time|env")
_NUMBER = re.compile(r"[-+.\d]")
_WHAT = r"(?:outputs?|out|saves?|logs?|logging|ckpts?|checkpoints?|results?)"
_PLACE = r"_?(?:dir|directory|path|folder|root)"
_READ = r"(?:load|init|initial|from|resume|restore|pretrained|input)"
_OUTPUT = re.compile(
    rf"{_WHAT}|(?!(?:.*_)?{_READ}_)(?:.*_)?(?:{_WHAT}|work|run|default_root|default_local){_PLACE}"
)


@dataclass(frozen=True)
class Given:
    """`values`: setting to value; a flag alone says `true`, and what an override takes out is `null`.
    `rest`: what is left of the command."""

    values: Mapping[str, str]
    rest: str


def settings_in(command: str) -> Given:
    """The settings of a launch command; where it gives one twice, the later one. Raises ShellError."""
    values: dict[str, str] = {}
    rest = "; ".join(_read(command, values))
    return Given(values, rest)


def is_output(name: str) -> bool:
    """Whether a setting of this name says where a run writes: `output_dir`, `--save-path`, `LOGDIR`. What a
    run begins with (`init_checkpoint_path`) is none."""
    last = re.split(r"[.:/]", name)[-1].lstrip("-+").replace("-", "_").lower()
    return _OUTPUT.fullmatch(last) is not None


def may_be_several(command: Simple, at: int) -> bool:
    """Whether the flag at word `at`, which has a value, may have more of them (`--layers 1 2 3`). The word
    behind the value is clearly none where it is an option, the program behind a launcher's flag, an expansion
    of the shell, a path or `a.b=c` where the value is not of this kind, or the one argument besides."""
    if at + 2 >= len(command.words):
        return False
    value, after = (word.value for word in command.words[at + 1 : at + 3])
    is_option = after == "--" or OPTION.match(after) or not command.words[at + 2].is_literal
    is_of_another_kind = any(
        kind.fullmatch(after) and not kind.fullmatch(value) for kind in (_STARTS, _PATH, _OVERRIDE)
    )
    is_alone = at == 1 and len(command.words) == 4 and not (_NUMBER.match(value) and _NUMBER.match(after))
    return not (is_option or is_of_another_kind or is_alone)


def _read(text: str, values: dict[str, str]) -> Iterator[str]:
    """Collect the settings of a text in `values`; what is left of each of its commands."""
    found = shell.read(text)
    for command in found.commands:
        variables = [word for word, _ in programs.assignments(command)]
        for word in variables:
            name, _, value = word.value.partition("=")
            values[f"env:{name.rstrip('+')}"] = value
        if not programs.starts_a_program(command):
            if not variables:
                yield " ".join(word.value for word in command.words)
        elif programs.is_shell_text(command):
            yield from _inside(command, values)
        else:
            yield " ".join(_arguments(programs.own_words(command), values))
        if command.reads_here and programs.is_shell(command):
            for start, end in found.heredocs:
                yield from _read(text[start:end], values)


def _inside(command: Simple, values: dict[str, str]) -> Iterator[str]:
    """The same of the text that a shell is given as an argument."""
    plain = [word.value for word in command.words if not re.search(r"\s", word.value)]
    yield " ".join(plain)
    for word in command.words:
        if re.search(r"\s", word.value):
            try:
                yield from list(_read(word.value, values))
            except shell.ShellError:  # no command, such as a sentence
                yield word.value


def _arguments(words: list[str], values: dict[str, str]) -> Iterator[str]:
    """Collect flags and overrides behind a program's name; the words that are none.

    Flags in front of a script are those of what starts it; the script itself is no value of theirs."""
    yield words[0]
    is_before_script = _SCRIPT.fullmatch(words[0]) is None
    at = 1
    while at < len(words):
        word, following = words[at], words[at + 1] if at + 1 < len(words) else None
        at += 1
        flag, sign, value = word.partition("=")
        if is_before_script and word == "-m" and following is not None:
            is_before_script = False
            yield f"-m {following}"
            at += 1
        elif attached := _ATTACHED.fullmatch(word):
            values[f"arg:{attached[1]}"] = attached[2]
        elif OPTION.match(word) and sign:
            values[f"arg:{flag}"] = value
        elif OPTION.match(word):
            is_script = is_before_script and following is not None and bool(_SCRIPT.fullmatch(following))
            has_value = following is not None and not OPTION.match(following) and not is_script
            values[f"arg:{word}"] = str(following) if has_value else "true"
            at += has_value
        elif override := _OVERRIDE.fullmatch(word):
            values[f"arg:{override[1]}"] = override[2]
        elif deleted := _DELETED.fullmatch(word):
            values[f"arg:{deleted[1]}"] = "null"
        else:
            is_before_script &= _SCRIPT.fullmatch(word) is None
            yield word
