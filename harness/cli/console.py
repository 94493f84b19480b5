"""What every command shares: where a run is found, how an error is said, how numbers and times are shown to
people."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

if TYPE_CHECKING:
    from rich.console import Console


def console(width: int | None = None) -> "Console":
    """The console that people read (`width` columns, default the terminal's); Rich is slow to import, so it
    waits."""
    from rich.console import Console

    class LastingConsole(Console):
        """Goes quiet when nobody reads any more; Rich's own would end the process, and with it the run."""

        def on_broken_pipe(self) -> None:
            self.quiet = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    return LastingConsole(highlight=False, soft_wrap=True, width=width, emoji=False)


def fail(message: str, status: int = 2) -> NoReturn:
    """Say what went wrong on standard error and end with `status`."""
    typer.echo(f"harness: {message}", err=True)
    raise typer.Exit(status)


@contextmanager
def said() -> Iterator[None]:
    """What a person must mend ends in one clear message: a folder that is damaged, in use, or not to be
    read."""
    from harness.journal import JournalDamagedError, JournalOwnedError
    from harness.sweep.plan import SweepError

    try:
        yield
    except (JournalDamagedError, JournalOwnedError, SweepError, OSError) as error:
        fail(str(error))


def find_run(word: str | None) -> Path:
    """The result folder of the run that a person means, or a clear end; a sweep is not a run."""
    from harness import index

    try:
        return index.find_run(word)
    except index.UnknownRunError as error:
        fail(str(error))


def find_any(word: str | None) -> Path:
    """The result folder of the run or of the sweep that a person means (`harness.result_folders.is_sweep`
    tells which), or a clear end."""
    from harness import index

    try:
        return index.find(word)
    except index.UnknownRunError as error:
        fail(str(error))


def duration(seconds: float | None) -> str:
    """`3725` → `1h 02m`, `65` → `1m 05s`, `7` → `7s`; `–` when unknown."""
    if seconds is None:
        return "–"
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    if hours:
        return f"{hours}h {minutes:02d}m"
    return f"{minutes}m {left:02d}s" if minutes else f"{left}s"
