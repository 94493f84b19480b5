"""What every command shares: where a run is found, how an error is said, the console that people read, and
questions at this terminal."""

import asyncio
import os
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from harness.wording import short_duration as duration

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["ask_for", "console", "duration", "fail", "find_any", "find_run", "read_line", "said", "take_back"]


def console(width: int | None = None) -> "Console":
    """The console that people read (`width` columns, default the terminal's); Rich is slow to import, so it
    waits."""
    from rich.console import Console

    class LastingConsole(Console):
        """Goes quiet when its reader is gone; Rich's own would end the process, and with it the run."""

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
    """What a person must put right ends in one clear message: a folder that is damaged, in use, or not to be
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


# --- a question at this terminal that does not hold up the event loop: the answer arrives as a call ------


def ask_for(prompt: str, on_answer: Callable[..., None], *arguments: Any) -> None:
    """Show a prompt, and call `on_answer` when a line can be read; what was typed before it was shown is no
    answer to it."""
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    print(prompt, end="", flush=True)
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), on_answer, *arguments)


def read_line() -> str:
    """The line that was typed; "" when the terminal is gone."""
    take_back()
    return sys.stdin.readline()


def take_back() -> None:
    """The question is settled otherwise."""
    asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
