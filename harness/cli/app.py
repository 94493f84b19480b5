"""`harness`: the command line, put together from one small file per group.

The module of a command is imported only when that command is typed.
"""

import gc
import io
import signal
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from harness import __version__
from harness.cli.console import fail, use_utf8
from harness.errors import UserError

COMMANDS = {
    "new": ("new.new", "Write a new experiment: its blueprint and config."),
    "check": ("check.check", "Show how a blueprint is read, and what is wrong with it."),
    "doctor": ("check.doctor", "Predict whether a launch of this plan would fail here."),
    "run": ("run.run", "Run one experiment to its report: a blueprint, or `-- COMMAND`."),
    "sweep": ("sweep.sweep", "Run variants of a blueprint over several seeds and compare them."),
    "compare": ("compare.compare", "Compare runs: means over seeds, differences, statistical tests."),
    "resume": ("run.resume", "Continue a run or a sweep whose harness is gone."),
    "ls": ("look.ls", "List your runs and sweeps, newest last."),
    "show": ("look.show", "Show a run or a sweep: state, attempts, headline numbers."),
    "logs": ("look.logs", "Print the log of the training."),
    "attach": ("look.attach", "Attach this terminal to the tmux session of the training."),
    "diagnose": ("diagnose.diagnose", "Find the cause of a failure in the log of any training."),
    "metrics": ("metrics.metrics", "Show the metrics found in a log or a file."),
    "stop": ("control.stop", "Stop a run, or all runs of a sweep, and write the report."),
    "approve": ("answer.approve", "Say yes to what a run or a sweep asks, as it is or changed."),
    "deny": ("answer.deny", "Say no to what a run, or several of a sweep, asks, and why."),
    "tell": ("answer.tell", "Say something to the agent of a run, for its next decision."),
    "report": ("report.report", "Build a report again, with its JSON and figures."),
    "narrate": ("narrate.narrate", "Add a language model's words to a finished report."),
    "rm": ("folders.rm", "Delete runs or sweeps: their folders and their lines in `ls`."),
    "verify": ("verify.verify", "Check every number and every file of a finished folder."),
    "replay": ("look.replay", "Make every decision of a run again, offline, and compare."),
    "open": ("folders.open_report", "Open a report in the browser, and print its path."),
    "lessons": ("lessons.lessons", "Show what earlier failures and repairs taught."),
    "signatures": ("signatures.signatures", "Try signatures of your own."),
}
"""Every command: where in this room it is, and the first sentence of its help."""


class Commands(TyperGroup):
    """The commands, where what a person must put right, a file or folder included, ends in one message."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else loaded(name), rest

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except UserError as error:
            fail(str(error))
        except BrokenPipeError:
            raise
        except OSError as error:
            fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))


def loaded(name: str) -> Any:
    """The command of this name, or the group of commands, with its options and its whole help."""
    from harness.cli.new_run import WithCommand

    module, attribute = COMMANDS[name][0].split(".")
    found = getattr(import_module(f"harness.cli.{module}"), attribute)
    alone = typer.Typer(rich_markup_mode=None)
    if isinstance(found, typer.Typer):
        alone.add_typer(found)
    else:
        alone.command(name, cls=WithCommand if name == "run" else None)(found)
    return typer.main.get_group(alone).commands[name]


app = typer.Typer(
    name="harness",
    cls=Commands,
    help="Take an ML experiment from a written plan to a trustworthy report, unattended.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"harness {__version__} (Python {sys.version.split()[0]})")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


for command, (_, summary) in COMMANDS.items():
    app.command(command, help=summary)(lambda: None)  # until it is typed: see `Commands.resolve_command`


def main() -> None:
    """Entry point of the console script."""
    use_utf8()
    gc.set_threshold(100_000, 20, 100)  # collecting more often costs a tenth of what a command takes
    signal.signal(signal.SIGUSR1, lambda *_: None)  # `harness stop` asks again until a run can listen
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    app(prog_name="harness")
