"""`harness new`: a blueprint and a config from the templates."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.console import console, fail

if TYPE_CHECKING:
    from harness.blueprint.scaffold import Question


def new(
    name: Annotated[str, typer.Argument(help="Name of the experiment and of its folder.")],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="An answer, such as purpose=…, max_time='2 hours', lr=1e-5 or ajet.rollout.num_repeat=8. "
            "Without any, a terminal is asked.",
        ),
    ] = None,
    folder: Annotated[Path, typer.Option("--dir", help="Where the experiment's folder is made.")] = Path(),
    template: Annotated[
        str, typer.Option("--template", help="grpo (the bundled trainer) or command (a command of your own).")
    ] = "grpo",
) -> None:
    """Write a new blueprint, with its config, ready to be run. Nothing is overwritten."""
    from harness.blueprint.scaffold import ScaffoldError, questions, write_experiment

    answers = _parse(settings or [])
    try:
        if not settings and _is_terminal():
            answers = {question.key: _ask(question) for question in questions(name, template)}
        blueprint = write_experiment(name, folder, answers, template)
    except ScaffoldError as error:
        fail(str(error))
    shown = folder / name / blueprint.name
    typer.echo(
        f"written: {', '.join(sorted(str(folder / name / f.name) for f in blueprint.parent.iterdir()))}"
    )
    typer.echo(f"next:    harness check {shown}\n         harness run {shown}")


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _parse(settings: list[str]) -> dict[str, str]:
    answers: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            fail(f"--set {setting!r} is not KEY=VALUE")
        if key.strip() in answers:
            fail(f"--set gives {key.strip()} twice")
        answers[key.strip()] = value
    return answers


def _ask(question: "Question") -> str:
    from rich.prompt import Prompt

    return Prompt.ask(question.text, default=question.default, console=console())
