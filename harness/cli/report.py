"""`harness report`: build the report of a run or a sweep again from its raw files."""

from pathlib import Path

import typer

from harness import index
from harness.cli.console import OnlyOne


def report(
    run: OnlyOne = None,
) -> None:
    """Build a report again, with its JSON and figures.

    Raw files are only read. Without a name, the only run or sweep that there is.
    """
    from harness import journal
    from harness.results.report import build_report

    folder = index.find(run) if run is not None else index.only([*index.top_level()], "run to report")
    if index.is_sweep(folder):
        _report_sweep(folder)
        return
    built = build_report(folder, journal.read(folder / "journal.jsonl"))
    for line in built.headline:
        typer.echo(line)
    for discrepancy in built.discrepancies:
        typer.echo(f"does not agree with the raw files: {discrepancy.where}: {discrepancy.what}", err=True)
    typer.echo(f"report: {folder / 'report.html'}")
    if built.discrepancies:
        raise typer.Exit(1)


def _report_sweep(folder: Path) -> None:
    from harness.sweep.plan import SweepFolder
    from harness.sweep.reporting import build
    from harness.sweep.state import load_state

    built = build(SweepFolder(folder), load_state(folder))
    for line in built.headline:
        typer.echo(line)
    typer.echo(f"report: {built.html}")
