"""`harness`: the command line, put together from one small file per group."""

import io
import signal
import sys
from typing import Annotated

import typer

from harness import __version__
from harness.cli import (
    answer,
    check,
    compare,
    control,
    diagnose,
    folders,
    look,
    new,
    report,
    run,
    sweep,
    verify,
)
from harness.cli.console import OneMessage, use_utf8
from harness.cli.lessons import lessons
from harness.cli.metrics import metrics
from harness.cli.narrate import narrate
from harness.cli.new_run import WithCommand
from harness.cli.signatures import signatures

app = typer.Typer(
    name="harness",
    cls=OneMessage,
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


for command in (
    new.new,
    check.check,
    check.doctor,
    run.run,
    sweep.sweep,
    compare.compare,
    run.resume,
    look.ls,
    look.show,
    look.logs,
    look.attach,
    diagnose.diagnose,
    metrics,
    control.stop,
    answer.approve,
    answer.deny,
    answer.tell,
    report.report,
    narrate,
    folders.rm,
    verify.verify,
    look.replay,
):
    app.command(cls=WithCommand if command is run.run else None)(command)
app.command("open")(folders.open_report)
app.add_typer(lessons)
app.add_typer(signatures)


def main() -> None:
    """Entry point of the console script."""
    use_utf8()
    signal.signal(signal.SIGUSR1, lambda *_: None)  # `harness stop` asks again until a run can listen
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    app(prog_name="harness")
