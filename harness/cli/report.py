"""`harness report`: build the report of a run again from its raw files."""

from typing import Annotated

import typer

from harness.cli.console import find_run


def report(
    run: Annotated[
        str | None, typer.Argument(help="A result folder, a run's name or its id; default: newest.")
    ] = None,
) -> None:
    """Build result.md, result.json, report.html and the figures again; raw files are only read."""
    from harness import journal
    from harness.results.report import build_report
    from harness.summary import run_summary

    folder = find_run(run)
    built = build_report(folder, run_summary(journal.read(folder / "journal.jsonl")))
    for line in built.headline:
        typer.echo(line)
    for discrepancy in built.discrepancies:
        typer.echo(f"does not agree with the raw files: {discrepancy}", err=True)
    typer.echo(f"report: {folder / 'report.html'}")
    if built.discrepancies:
        raise typer.Exit(1)
