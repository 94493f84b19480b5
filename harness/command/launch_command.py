"""A launch command with its settings, and the edits that leave everything else as the person wrote it.

What is not clear is refused with a CommandError that says what to write instead: a flag that stands there
twice, inside quotations or a here-document, or takes its value from a variable, and a text in which it cannot
be told which command is the training.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

from harness.command import programs, settings, shell
from harness.command.settings import Setting, is_same, plain
from harness.command.shell import CommandError, ShellText, Simple
from harness.config import edit as config_edit
from harness.config.values import Scalar, as_text

_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)")
_PATH_WORD = re.compile(r"""'[^'\n]*'|"(?:\\.|[^"\\\n])*"|(?:\\.|[^\s'"=:;&|<>(),\\])+""")
_TERMINAL = ("-it", "-ti", "--tty", "--pty", "--interactive")
_HF_TRAINER = re.compile(
    r"(?<!\S)(?:-m (?:trl|axolotl|llamafactory|transformers)\b"
    r"|(?:\S*/)?(?:(?:trl|axolotl|llamafactory-cli) [a-z]"
    r"|(?:trl/scripts/\w+|run_(?:clm|mlm|plm|glue|qa|swag|ner|\w+ation))\.py(?!\S)))"
)


@dataclass(frozen=True)
class Command:
    """A text taken apart. `rest`: what is left of it without flags, overrides and variables."""

    shell_text: ShellText
    settings: tuple[Setting, ...]
    rest: str

    @property
    def text(self) -> str:
        """The command as it is written."""
        return self.shell_text.text

    @cached_property
    def values(self) -> Mapping[str, str]:
        """Name to value; where the command gives one twice, the later one."""
        return {each.name: each.value for each in self.settings}

    @cached_property
    def plain(self) -> Mapping[str, str]:
        """The same for flags (of more than one letter) and overrides, by names as configs spell them;
        `--no-x` says false for `x`."""
        found: dict[str, str] = {}
        for each in self.settings:
            name = plain(each.name)
            if each.kind != "variable" and not re.fullmatch(r"arg:-[A-Za-z]", each.name):
                found[name] = each.value
                if name.startswith("no_") and each.kind == "switch":
                    found.setdefault(name.removeprefix("no_"), "false")
        return found

    def sets(self, key: str) -> str | None:
        """The plain name by which the command gives a config's key, or a section that holds it; or None."""
        return next(
            (name for name in self.plain if is_same(key, name) or plain(key).startswith(f"{name}.")), None
        )

    def setting_of(self, key: str) -> Setting | None:
        """The last flag or override that means the same as a config's key; None where there is none."""
        found = [each for each in self.settings if each.kind != "variable" and is_same(key, each.name)]
        return found[-1] if found else None

    @property
    def asks_for_a_terminal(self) -> bool:
        """True if a program is started with a flag for a terminal, such as `docker run -it`."""
        words = (word for each in self.shell_text.commands for word in each.values)
        return any(part in _TERMINAL for word in words for part in word.split())

    @property
    def is_of_hf_trainer(self) -> bool:
        """True if the program evidently is one built on the Hugging Face Trainer, so that it reads
        `gradient_accumulation_steps`. Any script may be behind `accelerate launch` or `deepspeed`."""
        return _HF_TRAINER.search(self.rest) is not None

    def value(self, name: str) -> str | None:
        """The value that the command gives `arg:NAME` or `env:NAME`; None where it gives none, or a variable
        whose value only the shell knows. Raises CommandError where that is not clear."""
        place = self._place(name)
        return None if place is None or not place.is_literal else place.value

    def with_setting(self, name: str, value: str) -> "Command":
        """The command with this value. A flag or an override that is not there is given to the training; a
        variable is set where the command assigns it itself, and handed on to programs, else in a line of its
        own in front. Raises CommandError."""
        place, shown = self._place(name), bare(name)
        if place is None and name.startswith("env:"):
            return read(f"export {shown}={shlex.quote(value)}\n{self.text}")
        if place is None:
            return read(self._appended(shown, value))
        if place.kind == "variable":
            return read(self._with_variable(shown, value, place))
        return read(self._replaced(place, value))

    def script_given(self, name: str) -> str | None:
        """The shell script that `with_setting` would give a flag which the command does not have; None where
        it is a program, or the flag is there. Raises CommandError."""
        if self._place(name) is not None:
            return None
        return programs.script([word.value for word in programs.unwrapped(self._training(bare(name)).words)])

    # --- places ---------------------------------------------------------------------------------------------

    def _place(self, name: str) -> Setting | None:
        """The one place where the command sets this. Raises CommandError where it is not clear."""
        shown, wanted = bare(name), re.sub(r"^arg:\+{1,2}", "arg:", name)
        found = [each for each in self.settings if each.name == wanted and not each.is_inside]
        problems = [_unclear(each, shown) for each in found] or [*self._hidden(shown)]
        if len(found) > 1:
            places = " and ".join(f"{each.value} (line {self._line(each.start)})" for each in found[:3])
            problems.append(f"{shown} stands in the launch command {len(found)} times, as {places}: keep one")
        if why := next(filter(None, problems), ""):
            raise CommandError(why)
        return found[0] if found else None

    def _hidden(self, name: str) -> Iterator[str]:
        """Where it stands as a text that another program takes apart, so that it would be there twice."""
        behind = r"(?=[\s=]|$)" if name.startswith("-") else "="
        pattern = re.compile(rf"(?<![\w./+-]){re.escape(name)}{behind}")
        for start, end in self.shell_text.heredocs:
            if there := pattern.search(self.text, start, end):
                where = f"a here-document of the launch command (line {self._line(there.start())})"
                yield f"{name} stands in {where}: its text is left alone; write the command without it"
        for command in self.shell_text.commands:
            given = command.words if programs.starts_a_program(command) else ()
            texts = [(word, word.value.partition("=")[2]) for word in command.assignments]
            for word, inner in [*texts, *((word, word.value) for word in given)]:
                if re.search(r"\s|\(", inner) and pattern.search(inner):
                    where = f"a quoted part of the launch command (line {self._line(word.start)})"
                    yield f"{name} stands inside {where}: write it outside of the quotes"

    def _line(self, position: int) -> int:
        return self.shell_text.line(position)

    def _started(self) -> list[Simple]:
        return [each for each in self.shell_text.commands if programs.starts_a_program(each)]

    # --- edits ----------------------------------------------------------------------------------------------

    def _replaced(self, place: Setting, value: str) -> str:
        return f"{self.text[: place.start]}{place.before}{shlex.quote(value)}{self.text[place.end :]}"

    def _appended(self, flag: str, value: str) -> str:
        command = self._training(flag)
        names = (bare(each.name) for each in self.settings)
        same = next((name for name in names if name.startswith("--") and plain(name) == plain(flag)), None)
        if same and flag.startswith("--"):  # a second one would be unknown, or fight with it
            raise CommandError(f"the launch command has no {flag}; did you mean arg:{same}?")
        is_separate = flag.startswith("-") and not value.startswith("-")
        end = command.words[-1].end
        return f"{self.text[:end]} {flag}{' ' if is_separate else '='}{shlex.quote(value)}{self.text[end:]}"

    def _with_variable(self, name: str, value: str, place: Setting) -> str:
        text = self._replaced(place, value)
        if place.command.words or programs.is_exported(self.shell_text.commands, name):
            return text
        end = place.command.assignments[-1].end + len(text) - len(self.text)
        return f"{text[:end]}; export {name}{text[end:]}"

    def _training(self, what: str) -> Simple:
        """The one command that starts a program, which `what` is to be added to. Raises CommandError."""
        fix = f"write {what} into the launch command with its present value"
        started = self._started()
        named = " and ".join(f"`{programs.shown(each)}`" for each in started[:3])
        if not started:
            why = f"and no program is started there: {fix}"
        elif len(started) > 1:
            why = f"which starts {named}: {fix}, where it belongs"
        elif started[0].is_nested:
            why = f"whose program {named} is started in a loop or a condition: {fix}"
        elif programs.is_shell_text(started[0]):
            why = f"whose program stands inside the quotes of {named}: write it without, with {what} in it"
        elif started[0].reads_here and "-" not in started[0].values:
            why = f"and {named} reads its program from a here-document: {fix}"
        else:
            return started[0]
        raise CommandError(f"{what} is not in the launch command, {why}")


@lru_cache(maxsize=256)
def read(text: str) -> Command:
    """Take a launch command apart. Raises CommandError with the line where it cannot be."""
    taken_apart = shell.read(text)
    found: list[Setting] = []
    rest = "; ".join(settings.collect(taken_apart, found))
    return Command(taken_apart, tuple(found), rest)


def read_or_empty(text: str) -> Command:
    """The same; a command without settings where the text cannot be read."""
    try:
        return read(text)
    except CommandError:
        return Command(ShellText(text, (), ()), (), text)


def bare(name: str) -> str:
    """`--lr` of `arg:--lr`, `NAME` of `env:NAME`."""
    return name.partition(":")[2] if name.startswith(("arg:", "env:")) else name


def paths_replaced(text: str, moved: Callable[[str], str | None]) -> str:
    """A text with the paths for which `moved` knows another place: whole words, also behind `=` and `:` and
    inside quotations. All else stays byte for byte; the text may be one that cannot be read."""

    def swap(match: re.Match[str]) -> str:
        word = match.group()
        if word[0] not in "'\"":
            place = moved(re.sub(r"\\(.)", r"\1", word))
            return word if place is None else shlex.quote(place)
        place = moved(word[1:-1]) if word[1:-1] else None
        if place is None:
            return f"{word[0]}{_PATH_WORD.sub(partial(swap_inside, word[0]), word[1:-1])}{word[0]}"
        return f"{word[0]}{place}{word[0]}" if shlex.quote(place) == place else shlex.quote(place)

    def swap_inside(quote: str, match: re.Match[str]) -> str:
        place = moved(match.group().strip("'\""))
        if place is None or shlex.quote(place) == place:
            return place or match.group()
        other = "'" if quote == '"' else '"'
        return f"{other}{place}{other}" if not re.search(r"""['"$`\\]""", place) else match.group()

    return _PATH_WORD.sub(swap, text)


def _unclear(place: Setting, shown: str) -> str:
    """Why the value of a setting cannot be replaced as one word, and what to write; "" where it can."""
    here = f"{shown} stands in the launch command"
    if place.kind == "switch":
        fix = f"write it as {shown}=VALUE if the program takes one, or vary something else"
        return f"{here} as a switch without a value, so there is none to vary: {fix}"
    if place.kind == "deletion":
        return f"the launch command takes {shown} out with `~{shown}`: leave that out first"
    if place.several:
        return (
            f"{here} before several words ({place.value} {place.several} …), and only the program knows "
            f"which are its value: write {shown}=VALUE, or put words that are none of its values before it"
        )
    if place.before.endswith("+="):
        return f"the launch command adds to {shown} (`{place.before}{place.value}`): set it once"
    if place.is_literal or place.kind == "variable":
        return ""
    variable = _VARIABLE.search(place.value)
    fix = f"vary env:{variable[1]} instead" if variable else "write its value there"
    return f"{here} with a value that the shell makes of {place.value}: {fix}"


# --- keys of a config that a command sets, which holds against it -------------------------------------------


def values_of(command: str) -> dict[str, Any]:
    """What flags and overrides set, by the key as a config spells it."""
    found = [each for each in read_or_empty(command).settings if each.kind != "variable" and each.is_literal]
    return {plain(bare(each.name)): _typed(each.value) for each in found}


def _typed(text: str) -> Any:
    """A word of a command as a config types it; the word itself where it is no YAML."""
    try:
        return config_edit.read(f"value: {text}\n")["value"]
    except config_edit.ConfigEditError:
        return text


def overlaid(values: Mapping[str, Any], command: str) -> dict[str, Any]:
    """Flat values of a config as the training gets them: with those of the command."""
    together = dict(values)
    for name, value in values_of(command).items():
        together[next((key for key in values if is_same(key, name)), name)] = value
    return together


def with_values(command: str, changes: Mapping[str, Scalar]) -> str:
    """The command with these keys set to other values, each where it stands; a flag (`--x`) that is not there
    is added. Raises CommandError, also for any other key that the command does not set."""
    edited = read(command) if changes else read_or_empty(command)
    for key, value in changes.items():
        place = edited.setting_of(key)
        if place is None and key.startswith("-"):
            edited = edited.with_setting(f"arg:{key}", as_text(value))
            continue
        if place is None:
            raise CommandError(f"the launch command does not set {key}")
        is_pythonic = place.value in ("True", "False") and isinstance(value, bool)
        edited = edited.with_setting(place.name, str(value) if is_pythonic else as_text(value))
    return edited.text
