"""`harness new`: a blueprint and a config, from a name and answers or from a request in words."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options
from harness.cli.console import ask, check_text, console, fail, is_terminal
from harness.wording import listed

if TYPE_CHECKING:
    from harness.author.draft import Brief

MOST_METRICS = 20

Request = Annotated[
    str,
    typer.Argument(
        metavar="NAME|WORDS",
        help="A name for the experiment and its folder, or in quotes what you want to find out.",
    ),
]
OfSweep = Annotated[
    Path | None,
    typer.Argument(
        metavar="BLUEPRINT", help="With `new sweep`: what the sweep.yaml is for; default: ./blueprint.md."
    ),
]
Answers = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Set a section or a config key, such as purpose=…, max_time='2 hours' or lr=1e-5; repeatable. "
        "Without any, you are asked in a terminal.",
    ),
]
Command = Annotated[
    str | None,
    typer.Option(
        "--command", metavar="COMMAND", help="The experiment runs this command of yours (in quotes)."
    ),
]
OfTrainer = Annotated[
    bool,
    typer.Option("--trainer", help="The experiment runs the bundled trainer (GRPO for language models)."),
]


def new(
    request: Request,
    blueprint: OfSweep = None,
    settings: Answers = None,
    folder: Annotated[
        Path, typer.Option("--dir", metavar="FOLDER", help="Create the experiment's folder in here.")
    ] = Path(),
    command: Command = None,
    trainer: OfTrainer = False,
    model: options.ModelName = None,
    max_cost: options.MaxCost = None,
    max_llm_calls: options.MaxCalls = None,
) -> None:
    """Write a new experiment: its blueprint and config.

    Give it a name, or say in quotes what you want to find out: then a language model writes the experiment.
    `harness new sweep BLUEPRINT` writes a sweep.yaml instead. Nothing is overwritten.

    Exit status: 0 written; 1 the language model did not finish, its work is kept; 2 not written, or written
    with problems left; 130 interrupted.
    """
    from harness.author import request_text as words
    from harness.author.draft import Brief

    if request == "sweep":
        from harness.cli.new_sweep import write_sweep_file

        blueprint = blueprint or Path("blueprint.md")
        path = write_sweep_file(blueprint, blueprint.parent)
        typer.echo(f"written: {path}\nnext:    harness sweep {path} --dry-run")
        return
    if blueprint is not None:
        fail(f"a blueprint is only named with `harness new sweep`; put quotes around {request} {blueprint}")
    given = {"NAME|WORDS": request, "--dir": str(folder), "--set": " ".join(settings or [])}
    for option, text in {**given, "--command": command or ""}.items():
        check_text(option, text)
    answers = _parse([*(settings or []), *([f"launch_command={command}"] if command else [])])
    template = _template(command, trainer, answers)
    if words.is_request(request):
        _from_words(Brief(request, answers, template, folder, Path.cwd()), model, max_cost, max_llm_calls)
        return
    if model is not None:
        fail(f"--model fills the templates from a request in words; {request!r} is a name")
    _write(request, folder, answers, template or _asked_template(), asks=not settings and is_terminal())


def _template(command: str | None, trainer: bool, answers: Mapping[str, str]) -> str | None:
    """The template that the options and answers ask for; None where they leave it open."""
    from harness.blueprint.scaffold import DEFAULTS

    if command is not None and trainer:
        fail("--command runs a command of your own, --trainer the bundled trainer: give one of them")
    is_trainers = any(key.strip("[]").removeprefix("exp_") not in DEFAULTS for key in answers)
    if trainer or (is_trainers and command is None):
        return "grpo"
    return "command" if "launch_command" in answers else None


def _asked_template() -> str:
    """The answer of a terminal to what is to be run."""
    if not is_terminal():
        fail("what should it run? Give --command 'python train.py', or --trainer for the bundled trainer")
    console().print("Run a command of your own, or the bundled trainer (GRPO for language models)?")
    choices = {"command": "command", "trainer": "grpo"}
    return choices[ask("Run", "command", [*choices])]


def _from_words(brief: "Brief", model: str | None, max_cost: float | None, max_llm_calls: int | None) -> None:
    """Let the configured model write the experiment; without one, ask."""
    from harness.author import request_text as words
    from harness.blueprint.scaffold import sort_answers
    from harness.cli import asking, new_by_model

    sort_answers(brief.given, brief.template or "command")  # what is wrong is said before a call is paid
    options.check_cost(max_cost)
    choice = asking.chosen(model, max_cost, max_llm_calls)
    if choice is not None:
        status = new_by_model.write(brief, choice)
        if status is not None:
            raise typer.Exit(status)
        if not is_terminal():
            raise typer.Exit(1)
        typer.echo("Without the model, you are asked.")
    elif not is_terminal():
        fail(
            "a request in words needs a language model (--model anthropic:NAME, or `model` in the [llm] "
            "section of harness.toml) or a terminal, where you are asked; or write "
            "`harness new NAME --command 'python train.py' --set purpose=…`"
        )
    else:
        typer.echo("No language model is configured (--model), so you are asked; Enter takes the default.")
    template = brief.template or _asked_template()
    name = ask("Name of the experiment", words.slug(brief.words))
    _write(name, brief.folder, dict(brief.given), template, asks=True, guessed=words.guesses(brief.words))


def _write(
    name: str,
    folder: Path,
    answers: dict[str, str],
    template: str,
    asks: bool,
    guessed: Mapping[str, str] | None = None,
) -> None:
    """Write the experiment. `asks`: the terminal is asked what `answers` leave open."""
    from harness.author.request_text import questions
    from harness.blueprint.scaffold import write_experiment

    for question in questions(name, template, guessed or {}) if asks else ():
        if question.key not in answers:
            answers[question.key] = ask(question.text, question.default)
    blueprint = write_experiment(name, folder, answers, template)
    shown = folder / name / blueprint.name
    files = sorted(str(folder / name / file.name) for file in blueprint.parent.iterdir())
    typer.echo(f"written: {', '.join(files)}")
    for line in _known(blueprint):
        typer.echo(line)
    typer.echo(f"next:    harness check {shown}\n         harness run {shown}")


def _known(written: Path) -> list[str]:
    """What earlier runs of the same program tell: how long one takes, and which metrics it has."""
    from harness.blueprint import read
    from harness.earlier_runs import estimate, metrics_of_program
    from harness.sweep.points import config_text

    plan = read(written)
    takes, metrics = estimate(plan, config_text(plan)), metrics_of_program(plan)
    known = {"takes:  ": takes.in_words if takes else "", "metrics:": listed(metrics, MOST_METRICS)}
    return [f"{title} {words}" for title, words in known.items() if words]


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
