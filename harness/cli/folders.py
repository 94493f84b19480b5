"""`harness rm`: delete a run or a sweep that is over; `harness open`: its report in a browser."""

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from harness import index
from harness.cli.console import RunOrSweep, fail
from monitors.files import AttemptFiles

REPORTS = ("report.html", "sweep_report.html")
SHOWS_WINDOWS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
"""Without one of these variables (on Linux) there is no browser, or one that takes the terminal over."""


def rm(
    runs: Annotated[list[str], typer.Argument(help="Result folders, names or ids of runs or sweeps.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete runs or sweeps: their folders and their lines in `ls`.

    A running one is refused.
    """
    folders = [index.find(word) for word in runs]
    for folder in folders:
        refusal = _refusal(folder)
        if refusal:
            fail(f"{folder} {refusal}")
    for folder in folders:
        if yes or typer.confirm(f"Delete {folder} and everything in it?"):
            shutil.rmtree(folder)
            index.remove(folder)
            typer.echo(f"deleted: {folder}")


def _refusal(folder: Path) -> str:
    """Why this folder cannot be deleted now; "" where it can."""
    from harness import journal

    sweep = index.sweep_of(folder)
    if sweep is not None:
        return f"is a run of the sweep {sweep}: delete the whole sweep"
    is_owned = journal.is_owned(index.journal_of(folder))
    attempts = (*folder.glob("attempts/[0-9]*"), *folder.glob("*/attempts/[0-9]*"))
    if is_owned or any(AttemptFiles(attempt).state() == "running" for attempt in attempts):
        return f"is running: `harness stop {folder}` first"
    return ""


def open_report(run: RunOrSweep = None) -> None:
    """Open a report in the browser, and print its path."""
    import webbrowser

    folder = index.find(run)
    report = next((folder / name for name in REPORTS if (folder / name).exists()), None)
    if report is None:
        fail(f"{folder} has no report yet: `harness report {folder}` builds one from what there is")
    typer.echo(report)
    if sys.platform != "linux" or any(os.environ.get(name) for name in SHOWS_WINDOWS):
        webbrowser.open(report.as_uri())
