"""Command lines of argparse programs: no flag that the program does not know, none missing that it needs.

In: the parsed source of the program. Out: findings. Only a program whose parser is plainly written in its own
file, with literal flags, is judged.
"""

import ast
import difflib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from harness.command import PythonProgram
from harness.doctor.launch import PlannedLaunch
from harness.doctor.types import Finding, fine, problem, warning

_OTHER_PARSERS = (
    "HfArgumentParser",
    "TrlParser",
    "parse_known_args",
    "add_subparsers",
    "parents=",
    "add_cli_args",
)


_NUMBERS: dict[str, type] = {"int": int, "float": float}


@dataclass(frozen=True)
class Parser:
    """The flags of one program, those it requires (each with its other names), their literal choices."""

    flags: frozenset[str]
    required: tuple[tuple[str, ...], ...]
    choices: dict[str, tuple[Any, ...]]
    numbers: dict[str, type]
    """Flags whose value is an int or a float."""


def flags_are_known(launch: PlannedLaunch) -> Iterator[Finding]:
    """Every `--flag` of the command is one of the program's, every required one is there."""
    for program in launch.programs:
        tree = launch.wanted().trees.get(program.script) if program.script else None
        parser = _parser(tree) if tree else None
        if parser is None or program.script is None or not all(map(program.call.is_known, program.arguments)):
            continue
        found = list(_judge(program, parser))
        yield from found
        if not found:
            yield fine(f"the flags of {program.script.name} are known to it")


def _judge(program: PythonProgram, parser: Parser) -> Iterator[Finding]:
    given = [word.partition("=")[0] for word in program.arguments if word.startswith("--") and len(word) > 2]
    script = program.script.name if program.script else ""
    for word in given:
        if not any(flag.startswith(word) for flag in parser.flags):
            close = difflib.get_close_matches(word, parser.flags, 1)
            mend = f"did you mean {close[0]}?" if close else f"`python {script} --help` lists its flags"
            yield problem(f"{script} has no flag {word}", mend, "config_error")
    for names in parser.required:
        shortened = any(name.startswith(word) for name in names for word in given)
        if not shortened and not any(word.partition("=")[0] in names for word in program.arguments):
            yield problem(
                f"{script} needs {names[-1]}, which the command does not give",
                f"add {names[-1]} VALUE",
                "config_error",
            )
    for flag, value in itertools.pairwise(program.arguments):
        if flag in parser.choices and value not in map(str, parser.choices[flag]):
            allowed = ", ".join(map(str, parser.choices[flag]))
            text = f"{flag} {value} is none of the choices of {script}"
            yield warning(text, f"choose among {allowed}", "config_error")
        if flag in parser.numbers and not _reads(parser.numbers[flag], value):
            kind = parser.numbers[flag].__name__
            yield problem(
                f"{flag} {value}: {script} takes a number ({kind})", "write a number", "config_error"
            )


def _reads(kind: type, value: str) -> bool:
    try:
        kind(value)
    except ValueError:
        return False
    return True


def _parser(tree: ast.Module) -> Parser | None:
    """The program's one parser; None where it is not plain."""
    text = ast.unparse(tree)
    if "ArgumentParser(" not in text or any(word in text for word in _OTHER_PARSERS):
        return None
    flags, required = {"--help"}, list[tuple[str, ...]]()
    choices, numbers = dict[str, tuple[Any, ...]](), dict[str, type]()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr != "add_argument":
            continue
        if not all(isinstance(word, ast.Constant) for word in node.args):
            return None
        names = tuple(str(word.value) for word in node.args if isinstance(word, ast.Constant))
        options = {word.arg: word.value for word in node.keywords}
        flags |= {name for name in names if name.startswith("--")}
        if "BooleanOptionalAction" in ast.unparse(node):
            flags |= {f"--no-{name[2:]}" for name in names if name.startswith("--")}
        if _literal(options.get("required")) is True:
            required.append(names)
        allowed = _literal(options.get("choices"))
        if isinstance(allowed, (list, tuple)):
            choices.update({name: tuple(allowed) for name in names if name.startswith("--")})
        kind = _NUMBERS.get(ast.unparse(options["type"])) if "type" in options else None
        if kind is not None and "nargs" not in options:
            numbers.update({name: kind for name in names if name.startswith("--")})
    return Parser(frozenset(flags), tuple(required), choices, numbers)


def _literal(node: ast.expr | None) -> Any:
    try:
        return ast.literal_eval(node) if node is not None else None
    except ValueError:
        return None
