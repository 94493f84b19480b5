"""`harness verify`: check a finished run, or a sweep with all its runs, against its own raw files."""

from pathlib import Path
from typing import Annotated

import typer

from harness import index
from harness.cli.console import print_json


def verify(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="The result folder of a run or a sweep (moved or copied ones too), or its name or id; "
            "default: the newest.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check every number and every file of a finished folder.

    Numbers are read again from the raw files, files compared with the checksums taken at the end. Nothing is
    written. Exit status: 0 nothing differs; 1 something does, one line each; 2 the folder is not finished;
    3 only reports that another version of the harness built.
    """
    from harness.agent.excerpts import plain
    from harness.results.verify import verify_run
    from harness.sweep.verify import verify_sweep

    folder = Path(run or "").expanduser().resolve()
    if run is None or not (folder / "finish.flag").is_file():  # one that has it is taken, whatever it lacks
        folder = index.find(run)
    is_one = index.is_sweep(folder) or (folder / "sweep.json").is_file()
    checked = verify_sweep(folder) if is_one else verify_run(folder)
    if as_json:
        print_json({"folder": str(folder), **checked.as_json()})
    else:
        for found in (*checked.discrepancies, *checked.outdated):
            typer.echo(plain(f"{found.where}: {found.what}".replace("\n", " ")))
        typer.echo(f"{plain(str(folder))}: {checked.summary}")
    if checked.discrepancies or checked.outdated:
        raise typer.Exit(1 if checked.discrepancies else 3)
