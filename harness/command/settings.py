"""What a launch command sets: flags and overrides of its programs, and variables, each with its place.

In: a shell text taken apart. Out: `Setting`s by the names that a sweep gives its keys, and what is left of
the command. Read word by word as a shell does, so that a variable is never taken for a flag.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from harness.command import programs, shell
from harness.command.shell import ShellText, Simple, Word

OPTION = re.compile(r"--?[A-Za-z]")
_OVERRIDE = re.compile(r"(\+{0,2})([A-Za-z_][\w./@-]*)=(.*)", re.DOTALL)
_DELETED = re.compile(r"~([A-Za-z_][\w./@-]*)(?:=.*)?", re.DOTALL)
_ATTACHED = re.compile(r"(-[A-Za-z])(\d[\w.]*)")
_SCRIPT = re.compile(r"\S+\.(?:py|sh|bash)")
_STARTS = re.compile(r"python[\d.]*|torchrun|accelerate|deepspeed|bash|sh|uv|time|env")
_KINDS = (r".*\s.*", r"[-+]?\.?\d.*", r"[A-Za-z_][\w./@-]*=.*", r".*/.*|.*\.[A-Za-z]\w{0,7}|-")
"""Texts, numbers, overrides, paths."""
_WHAT = r"(?:outputs?|out|saves?|logs?|logging|ckpts?|checkpoints?|results?)"
_PLACE = r"_?(?:dir|directory|path|folder|root)"
_READ = r"(?:load|init|initial|from|resume|restore|pretrained|input)"
_OUTPUT = re.compile(
    rf"{_WHAT}|(?!(?:.*_)?{_READ}_)(?:.*_)?(?:{_WHAT}|work|run|default_root|default_local){_PLACE}"
)
_OFF = frozenset(("", "0", "no", "off", "false", "none", "null"))

Kind = Literal["flag", "switch", "override", "deletion", "variable"]


@dataclass(frozen=True)
class Setting:
    """One place where the command sets something.

    `value`: a switch says `true`, what an override takes out is `null`. `text[start:end]` is what an edit
    replaces, by `before` and the new value. `command`: the command it belongs to. `is_literal`: False where
    the shell makes something of the value first. `is_inside`: in text that is quoted, or in a here-document.
    `several`: the next word, where only the program knows whether it is a value of this flag too; else "".
    """

    name: str
    value: str
    kind: Kind
    start: int
    end: int
    command: Simple
    before: str = ""
    is_literal: bool = True
    is_inside: bool = False
    several: str = ""


def collect(text: ShellText, found: list[Setting]) -> Iterator[str]:
    """Collect the settings of a text in `found`; what is left of each of its commands."""
    for command in text.commands:
        variables = list(programs.assignments(command))
        for word in variables:
            name, _, value = word.value.partition("=")
            found.append(_of_word(word, f"env:{name.rstrip('+')}", value, "variable", f"{name}=", command))
        if not programs.starts_a_program(command):
            if not variables:
                yield " ".join(command.values)
        elif programs.is_shell_text(command):
            yield from _inside(command, found)
        else:
            yield " ".join(_arguments(command, programs.unwrapped(command.words), found))
        if command.reads_here and programs.is_shell(command.values):
            for start, end in text.heredocs:
                yield from _nested(text.text[start:end], found, start, end)


def _inside(command: Simple, found: list[Setting]) -> Iterator[str]:
    """The same of the text that a shell is given as an argument."""
    texts = [word for word in command.words if re.search(r"\s", word.value)]
    yield " ".join(word.value for word in command.words if word not in texts)
    for word in texts:
        try:
            yield from list(_nested(word.value, found, word.start, word.end))
        except shell.CommandError:  # no command, such as a sentence
            yield word.value


def _nested(text: str, found: list[Setting], start: int, end: int) -> Iterator[str]:
    inner: list[Setting] = []
    yield from collect(shell.read(text), inner)
    found += [replace(each, start=start, end=end, is_inside=True) for each in inner]


def _arguments(command: Simple, words: Sequence[Word], found: list[Setting]) -> Iterator[str]:
    """Collect flags and overrides behind a program's name; the words that are none.

    Flags in front of a script are those of what starts it; the script itself is no value of theirs. An
    override right behind a flag (`--fast a.b=1`) counts as both, as only the program knows which it is."""
    yield words[0].value
    is_before_script = _SCRIPT.fullmatch(words[0].value) is None
    at = 1
    while at < len(words):
        word, following = words[at], words[at + 1] if at + 1 < len(words) else None
        at += 1
        if is_before_script and word.value == "-m" and following is not None:
            is_before_script = False
            yield f"-m {following.value}"
            at += 1
        elif attached := _ATTACHED.fullmatch(word.value):
            found.append(_of_word(word, f"arg:{attached[1]}", attached[2], "flag", attached[1], command))
        elif OPTION.match(word.value) and "=" in word.value:
            flag, _, value = word.value.partition("=")
            found.append(_of_word(word, f"arg:{flag}", value, "flag", f"{flag}=", command))
        elif OPTION.match(word.value):
            is_script = is_before_script and following is not None and _SCRIPT.fullmatch(following.value)
            if following is None or OPTION.match(following.value) or is_script:
                found.append(_of_word(word, f"arg:{word.value}", "true", "switch", "", command))
                continue
            at += 1
            setting = _of_word(following, f"arg:{word.value}", following.value, "flag", "", command)
            found.append(replace(setting, several=_several(following, words[at:])))
            found += [each for each in _override(following, command) if each.kind == "override"]
        elif settings := list(_override(word, command)):
            found += settings
        else:
            is_before_script &= _SCRIPT.fullmatch(word.value) is None
            yield word.value


def _override(word: Word, command: Simple) -> Iterator[Setting]:
    """`name=value` and `~name`, as Hydra and OmegaConf read them."""
    if match := _OVERRIDE.fullmatch(word.value):
        yield _of_word(word, f"arg:{match[2]}", match[3], "override", f"{match[1]}{match[2]}=", command)
    elif match := _DELETED.fullmatch(word.value):
        yield _of_word(word, f"arg:{match[1]}", "null", "deletion", "", command)


def _of_word(word: Word, name: str, value: str, kind: Kind, before: str, command: Simple) -> Setting:
    return Setting(name, value, kind, word.start, word.end, command, before, word.is_literal)


def _several(value: Word, following: Sequence[Word]) -> str:
    """The word behind a flag's value, where it may be a value of the same flag (`--layers 1 2 3`): no option,
    no program behind a launcher's flag, no expansion of the shell and no word of another kind."""
    if not following or OPTION.match(following[0].value) or not following[0].is_literal:
        return ""
    after = following[0].value
    is_another = after == "--" or _STARTS.fullmatch(after) or _kind(value.value) != _kind(after)
    return "" if is_another else after


def _kind(word: str) -> str:
    return next((kind for kind in _KINDS if re.fullmatch(kind, word, re.DOTALL)), "")


# --- names --------------------------------------------------------------------------------------------------


def is_output(name: str) -> bool:
    """True if a setting of this name says where a run writes: `output_dir`, `--save-path`, `LOGDIR`. What a
    run begins with (`init_checkpoint_path`) is none."""
    last = re.split(r"[.:/]", name)[-1].lstrip("-+").replace("-", "_").lower()
    return _OUTPUT.fullmatch(last) is not None


def plain(name: str) -> str:
    """A setting's name as configs spell it: lower case, `_` for `-`, dots for slashes."""
    return name.removeprefix("arg:").lower().lstrip("-").replace("-", "_").replace("/", ".").strip(".")


def is_same(key: str, name: str) -> bool:
    """True if both may mean one setting: what stands before a name may be left out on either side."""
    one, other = f".{plain(key)}", f".{plain(name)}"
    return one.endswith(other) or other.endswith(one)


def is_off(value: object) -> bool:
    """True if a value of a config or a command line switches something off."""
    return str(value).strip().lower() in _OFF
