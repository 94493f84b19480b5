"""`harness verify`: check a finished run, or a sweep with all its runs, against its own raw files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.console import find_any, print_json

if TYPE_CHECKING:
    from harness.results.verify import Checked


def verify(
    run: Annotated[
        str | None,
        typer.Argument(
            help="A result folder of a run or of a sweep, also one that was moved or copied here, or its "
            "name or id; default: newest."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Read every number of a finished folder again from its raw files, and check every file against the
    fingerprint taken at the end. Nothing is written.

    Exit status: 0 nothing differs; 1 something does, each on its own line; 2 the folder is not finished.
    """
    from harness.agent.excerpts import plain

    folder = _folder(run)
    checked = _verified(folder)
    if as_json:
        print_json({"folder": str(folder), **checked.as_json()})
    else:
        for found in checked.discrepancies:
            typer.echo(plain(f"{found.where}: {found.what}".replace("\n", " ")))
        typer.echo(f"{plain(str(folder))}: {checked.summary}")
    if checked.discrepancies:
        raise typer.Exit(1)


def _verified(folder: Path) -> "Checked":
    from harness.index import is_sweep
    from harness.results.verify import verify_run
    from harness.sweep.verify import verify_sweep

    is_one = is_sweep(folder) or (folder / "sweep.json").is_file()
    return verify_sweep(folder) if is_one else verify_run(folder)


def _folder(word: str | None) -> Path:
    """The folder that is meant; one that has a finish.flag is taken as it is, whatever else it lacks."""
    path = Path(word).expanduser() if word is not None else None
    if path is not None and (path / "finish.flag").is_file():
        return path.resolve()
    return find_any(word)
