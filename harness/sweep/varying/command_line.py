"""One flag or one variable of a launch command, read and set: shell text in, shell text out.

Everything else in a person's text stays as it is, byte for byte. What is not clear is refused with a
SweepError that says what to write instead: a flag that stands there twice, inside quotes or a here-document,
or takes its value from a variable, and a text in which it cannot be told which command is the training.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace

from harness.command import programs, shell
from harness.command.settings import OPTION, may_be_several
from harness.command.shell import ShellText, Simple, Word
from harness.sweep.types import SweepError

_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)")


@dataclass(frozen=True)
class _Place:
    """Where a value stands: `text[start:end]` is replaced by `before` and the quoted value. `command`: the
    command it belongs to, `is_prefix` where it is set for this command alone."""

    start: int
    end: int
    before: str
    value: str
    is_literal: bool
    command: Simple
    is_prefix: bool = False


def set_flag(command: str, flag: str, value: str) -> str:
    """The command with the value of `flag` (`--lr`, `-n`, or `a.b` for `a.b=c`) replaced by `value`; one that
    is not there is given to the training. Raises SweepError."""
    text = _read(command)
    place = _flag_place(text, flag)
    if place is None:
        return _appended(text, flag, value)
    return _replaced(command, place, value)


def flag_value(command: str, flag: str) -> str | None:
    """The value that the command gives `flag`; None where it does not. Raises SweepError as `set_flag`."""
    place = _flag_place(_read(command), flag)
    return place.value if place else None


def script_given(command: str, flag: str) -> str | None:
    """The shell script that `set_flag` would give a flag which the command does not have; None where it is a
    program, or the flag is there. Raises SweepError as `set_flag`."""
    text = _read(command)
    return None if _flag_place(text, flag) else programs.script(_training(text, flag))


def set_variable(command: str, name: str, value: str) -> str:
    """The command with the environment variable `name` set: where it assigns the variable itself, there (and
    handed on to programs, unless only the shell reads it); else in a line of its own in front. Raises
    SweepError."""
    text = _read(command)
    place = _variable_place(text, name)
    if place is None:
        return f"export {name}={shlex.quote(value)}\n{command}"
    edited = _replaced(command, place, value)
    if place.command.words or _is_handed_on(text, place, name):
        return edited
    if len(place.command.assignments) == 1:
        return _replaced(command, replace(place, before=f"export {place.before}"), value)
    behind = len(command) - place.command.assignments[-1].end
    return f"{edited[: len(edited) - behind]}; export {name}{edited[len(edited) - behind :]}"


def variable_value(command: str, name: str) -> str | None:
    """The value that the command itself gives the variable; None where it gives none, or one that only the
    shell knows. Raises SweepError as `set_variable`."""
    place = _variable_place(_read(command), name)
    return place.value if place and place.is_literal else None


def variable_start(command: str, name: str) -> int | None:
    """Where the command assigns the variable itself, or None. Raises SweepError as `set_variable`."""
    place = _variable_place(_read(command), name)
    return place.start if place else None


def _read(command: str) -> ShellText:
    try:
        return shell.read(command)
    except shell.ShellError as error:
        raise SweepError(f"the launch command cannot be taken apart: {error}") from error


def _replaced(command: str, place: _Place, value: str) -> str:
    return f"{command[: place.start]}{place.before}{shlex.quote(value)}{command[place.end :]}"


# --- flags --------------------------------------------------------------------------------------------------


def _flag_place(text: ShellText, flag: str) -> _Place | None:
    found = [place for command in text.commands for place in _flags_of(command, flag)]
    if len(found) > 1:
        raise SweepError(f"{flag} stands in the launch command {_places(text, found)}: keep one")
    if not found:
        _refuse_hidden(text, flag)
        return None
    (place,) = found
    if not place.is_literal:
        name = _VARIABLE.search(place.value)
        mend = f"vary env:{name[1]} instead" if name else "write its value there"
        raise SweepError(
            f"{flag} takes its value in the launch command from what the shell makes of {place.value}: {mend}"
        )
    return place


def _flags_of(command: Simple, flag: str) -> Iterator[_Place]:
    """Every place where this command gives the flag a value."""
    if not programs.starts_a_program(command):
        return
    words = command.words
    for at, word in enumerate(words[1:], start=1):
        if not flag.startswith("-"):
            yield from _override(command, word, flag)
        elif word.value == flag:
            following = words[at + 1] if at + 1 < len(words) else None
            if following is None or OPTION.match(following.value):
                raise SweepError(
                    f"{flag} stands in the launch command as a switch without a value, so there is none to "
                    f"vary: write it as {flag}=VALUE if the program takes one, or vary something else"
                )
            _refuse_several(command, at, flag)
            yield _Place(following.start, following.end, "", following.value, following.is_literal, command)
        elif word.value.startswith(f"{flag}="):
            value = word.value[len(flag) + 1 :]
            yield _Place(word.start, word.end, f"{flag}=", value, word.is_literal, command)
        elif len(flag) == 2 and re.fullmatch(rf"{flag}\d[\w.]*", word.value):
            yield _Place(word.start, word.end, flag, word.value[2:], word.is_literal, command)


def _refuse_several(command: Simple, at: int, flag: str) -> None:
    """Refuse a flag with several words behind it that may all be its value."""
    if may_be_several(command, at):
        value, after = (word.value for word in command.words[at + 1 : at + 3])
        raise SweepError(
            f"{flag} is followed in the launch command by several words ({value} {after} …), and only the "
            f"program knows which of them are its value: write {flag}=VALUE, or put words that are none of "
            "its values before it"
        )


def _override(command: Simple, word: Word, name: str) -> Iterator[_Place]:
    """`name=value`, as Hydra and OmegaConf read it."""
    plain = name.lstrip("+")
    found = re.match(rf"(\+{{0,2}}|~){re.escape(plain)}(?:=|$)", word.value)
    if found and found[1] == "~":
        raise SweepError(f"the launch command takes {plain} out with `{word.value}`: leave that out first")
    if found and word.value.endswith(plain):
        return
    if found:
        value = word.value[found.end() :]
        yield _Place(word.start, word.end, found.group(), value, word.is_literal, command)


def _appended(text: ShellText, flag: str, value: str) -> str:
    command = _training(text, flag)
    _refuse_other_spelling(command, flag)
    quoted = shlex.quote(value)
    if not flag.startswith("-"):
        added = f"{flag}={quoted}"
    else:
        added = f"{flag}={quoted}" if value.startswith("-") else f"{flag} {quoted}"
    end = command.words[-1].end
    return f"{text.text[:end]} {added}{text.text[end:]}"


def _training(text: ShellText, what: str) -> Simple:
    """The one command that starts a program. `what` is to be added to it. Raises SweepError where that is not
    clear."""
    found = [command for command in text.commands if programs.starts_a_program(command)]
    mend = f"write {what} into the launch command with its present value"
    if not found:
        raise SweepError(f"{what} is not in the launch command, and no program is started there: {mend}")
    if len(found) > 1:
        named = " and ".join(f"`{programs.shown(command)}`" for command in found[:3])
        raise SweepError(
            f"{what} is not in the launch command, which starts {named}: {mend}, where it belongs"
        )
    (command,) = found
    if command.is_nested:
        raise SweepError(
            f"{what} is not in the launch command, whose program `{programs.shown(command)}` is started in a "
            f"loop or a condition: {mend}"
        )
    if programs.is_shell_text(command):
        raise SweepError(
            f"{what} is not in the launch command, whose program stands inside the quotes of "
            f"`{programs.shown(command)}`: write the command without them, with {what} in it"
        )
    if command.reads_here and not any(word.value == "-" for word in command.words):
        raise SweepError(
            f"{what} is not in the launch command, and `{programs.shown(command)}` reads its program from a "
            f"here-document: {mend}"
        )
    return command


def _refuse_other_spelling(command: Simple, flag: str) -> None:
    """Refuse a flag that the command writes with `_` for `-`, or the other way round: a second one would
    either be unknown or fight with it."""
    wanted = flag.replace("_", "-")
    for word in command.words[1:] if flag.startswith("--") else ():
        name = word.value.partition("=")[0]
        if name != flag and name.startswith("--") and name.replace("_", "-") == wanted:
            raise SweepError(f"the launch command has no {flag}; did you mean arg:{name}?")


def _refuse_hidden(text: ShellText, name: str) -> None:
    """Refuse what stands where only another program takes the text apart: it would be there twice."""
    pattern = re.compile(
        rf"(?<![\w./+-]){re.escape(name)}" + (r"(?=[\s=]|$)" if name.startswith("-") else "=")
    )
    for start, end in text.heredocs:
        if found := pattern.search(text.text, start, end):
            raise SweepError(
                f"{name} stands in a here-document of the launch command (line "
                f"{_line(text, found.start())}): its text is left alone; write the command without it"
            )
    for command in text.commands:
        for word in (*command.assignments, *command.words):
            is_assignment = word in command.assignments
            inner = word.value.partition("=")[2] if is_assignment else word.value
            is_read = is_assignment or programs.starts_a_program(command)
            if is_read and re.search(r"\s|\(", inner) and pattern.search(inner):
                raise SweepError(
                    f"{name} stands inside a quoted part of the launch command (line "
                    f"{_line(text, word.start)}): write it outside of the quotes"
                )


# --- variables ----------------------------------------------------------------------------------------------


def _variable_place(text: ShellText, name: str) -> _Place | None:
    found = [place for command in text.commands for place in _assignments_of(command, name)]
    if len(found) > 1:
        raise SweepError(f"{name} is set in the launch command {_places(text, found)}: keep one")
    if not found:
        _refuse_hidden(text, name)
        return None
    (place,) = found
    started = (command for command in text.commands if programs.starts_a_program(command))
    others = [command for command in started if command is not place.command]
    if place.is_prefix and others:
        raise SweepError(
            f"{name} is set for `{programs.shown(place.command)}` alone, and the launch command starts "
            f"`{programs.shown(others[0])}` too: write `export {name}=…` in a line of its own"
        )
    if not place.is_prefix and others and all(each.words[0].start < place.start for each in others):
        raise SweepError(
            f"{name} is set in the launch command behind `{programs.shown(others[-1])}`, which does not see "
            "it: put it in front"
        )
    return place


def _is_handed_on(text: ShellText, place: _Place, name: str) -> bool:
    """Whether programs are given the variable, or the text itself reads it."""
    around = text.text[: place.start] + text.text[place.end :]
    is_read = re.search(rf"\$\{{?{re.escape(name)}\b", around) is not None
    return is_read or programs.is_exported(text.commands, name)


def _assignments_of(command: Simple, name: str) -> Iterator[_Place]:
    """Every place where this command assigns the variable."""
    program = command.words[0].value if command.words else ""
    if program == "unset" and any(word.value == name for word in command.words[1:]):
        raise SweepError(f"the launch command unsets {name}: leave that out to vary it")
    for word, is_prefix in programs.assignments(command):
        if word.value.startswith(f"{name}+="):
            raise SweepError(f"the launch command adds to {name} (`{word.value}`): set it once, with `=`")
        if word.value.startswith(f"{name}="):
            value = word.value[len(name) + 1 :]
            yield _Place(word.start, word.end, f"{name}=", value, word.is_literal, command, is_prefix)


# --- words --------------------------------------------------------------------------------------------------


def _places(text: ShellText, found: list[_Place]) -> str:
    """Such as `2 times, as 1e-4 (line 1) and 3e-4 (line 2)`."""
    shown = " and ".join(f"{place.value} (line {_line(text, place.start)})" for place in found[:3])
    return f"{len(found)} times, as {shown}"


def _line(text: ShellText, position: int) -> int:
    return text.text.count("\n", 0, position) + 1
