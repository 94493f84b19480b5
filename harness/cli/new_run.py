"""`harness run -- COMMAND`: the blueprint of a command that has none, and where its words are taken from."""

import os
import re
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Context
from typer.core import TyperCommand

from harness.cli.console import ask, check_text, is_terminal

if TYPE_CHECKING:
    from harness.blueprint import Blueprint

_WORDS = "harness.command_words"
_LONGEST_NAME = 40


class WithCommand(TyperCommand):
    """A command of the command line whose words after `--` are a command of the user's."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            place = args.index("--")
            ctx.meta[_WORDS] = args[place + 1 :]
            args = args[:place]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


def command_of(ctx: Context) -> str:
    """The command that was typed after `--`, as shell text; "" without one."""
    words: list[str] = ctx.meta.get(_WORDS, [])
    text = words[0] if len(words) == 1 else shlex.join(words)  # one word may be a whole line in quotes
    check_text("the command", text)
    return text


def blueprint_for(
    command: str, purpose: str | None, max_time_s: float | None, result_dir: Path | None
) -> tuple["Blueprint", str]:
    """A blueprint that runs this shell text here, with the Python of this shell, and its Markdown. A terminal
    is asked for the purpose. Raises ScaffoldError."""
    from harness.blueprint.reader import parse
    from harness.blueprint.scaffold import compose
    from harness.blueprint.types import DEFAULT_FIRST_STEP_S
    from harness.wording import exact_duration

    cwd = Path.cwd()
    name = name_of(command, cwd)
    python = shutil.which("python") or shutil.which("python3")
    sections = {
        "purpose": _asked(command) if purpose is None else purpose,
        "codebase_dir": str(cwd),
        "venv_exe": python or "",
        "launch_command": command,
        "result_dir": str(result_dir or ""),
    }
    if max_time_s is not None:
        sections["max_time"] = exact_duration(max_time_s)
        sections["first_step"] = exact_duration(min(max_time_s, DEFAULT_FIRST_STEP_S))
    path = cwd / "exp_results" / name / "blueprint.md"
    text = compose(name, path.parent, sections, {}, "command", cwd).blueprint
    return parse(text, path, cwd), text


def name_of(command: str, cwd: Path) -> str:
    """A name that tells runs apart: the program's, with its arguments, such as `train-lr-1e-3`."""
    from harness.command import calls, python_programs
    from harness.redaction import redact

    found = calls(redact(command), cwd, os.environ)
    program: tuple[str, ...] = found[-1].words if found else ()
    for python in python_programs(found):
        program = (python.module or (python.script.stem if python.script else ""), *python.arguments)
    words = (re.sub(r"[^A-Za-z0-9_.]+", "-", word).strip("-._") for word in program)
    return "-".join(filter(None, words))[:_LONGEST_NAME].strip("-._") or "run"


def _asked(command: str) -> str:
    usual = f"Run {' '.join(command.split())} and record what it does."
    return ask("What should this run find out?", usual) if is_terminal() else usual
