"""What every command shares: how a run is named, how an error is said, the console that people read, and
questions at this terminal."""

import codecs
import json
import os
import sys
import termios
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from monitors.json_numbers import worded

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

Run = Annotated[
    str | None,
    typer.Argument(metavar="RUN", help="A result folder, or a run's name or id; default: the newest run."),
]
RunOrSweep = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN", help="A result folder, or the name or id of a run or sweep; default: the newest."
    ),
]
OnlyOne = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN",
        help="A result folder, or a name or id; needed unless there is only one that can be meant.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
MOST_PIPED = 8 << 30


def console() -> "Console":
    """The console that people read; Rich is slow to import, so it waits."""
    from rich.console import Console

    class LastingConsole(Console):
        """Goes quiet when its reader is gone; Rich's own would end the process, and with it the run."""

        def on_broken_pipe(self) -> None:
            self.quiet = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    return LastingConsole(highlight=False, soft_wrap=True, emoji=False, markup=False)


def use_utf8() -> None:
    """Start the command anew in Python's UTF-8 mode where the locale has another encoding: paths and journals
    are UTF-8 whatever the locale says."""
    if codecs.lookup(sys.getfilesystemencoding()).name != "utf-8":
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def fail(message: str, status: int = 2) -> NoReturn:
    """Say what went wrong on standard error and end with `status`."""
    from harness.results.text import spelled  # a path may hold what a terminal would obey

    typer.echo(spelled(f"harness: {message}"), err=True)
    raise typer.Exit(status)


def check_text(what: str, text: str) -> None:
    """A clear end for bytes that are not UTF-8, which reach us as surrogates."""
    if any("\ud800" <= char <= "\udfff" for char in text):
        fail(f"{what} is not text in UTF-8; write it in UTF-8, or without the accents")


def is_terminal() -> bool:
    """True if a person can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def ask(question: str, default: str, choices: list[str] | None = None) -> str:
    """The answer of the person at this terminal."""
    from rich.prompt import Prompt

    return Prompt.ask(question, choices=choices, default=default, console=console())


@contextmanager
def piped_log() -> Iterator[Path]:
    """Standard input as a file, of MOST_PIPED bytes at most."""
    with NamedTemporaryFile(prefix="piped-", suffix=".log") as file:
        while block := sys.stdin.buffer.read(1 << 20):
            file.write(block)
            if file.tell() > MOST_PIPED:
                fail(f"more than {MOST_PIPED >> 30} GiB on standard input; name the file instead")
        file.flush()
        yield Path(file.name)


def print_json(value: Any) -> None:
    """What `--json` prints."""
    typer.echo(json.dumps(worded(value), indent=2, ensure_ascii=False))


def print_table(rows: Iterable[Sequence["str | Text"]], titles: Sequence[str] = ()) -> None:
    """Cells as columns."""
    from rich.table import Table
    from rich.text import Text

    from harness.results.text import spelled

    rows = [[Text(spelled(cell)) if isinstance(cell, str) else cell for cell in row] for row in rows]
    table = Table(box=None, show_header=bool(titles), header_style="bold", padding=(0, 2, 0, 0))
    for place, title in enumerate(titles or ("",) * len(rows[0])):
        table.add_column(title, no_wrap=place == 0 and not title, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console().print(table, soft_wrap=False)


def facts(template: str, /, **values: Any) -> list[tuple[str, str]]:
    """What a template says, one fact a line: its name, a bar, words."""
    from harness.templating import render

    lines = filter(None, map(str.strip, render(template, **values).split("\n")))
    return [(name, words) for name, _, words in (line.partition("|") for line in lines)]


def print_facts(name: str, state: str, template: str, /, **values: Any) -> None:
    """A run or a sweep as `harness show` has it: its name, and what the template says of it."""
    typer.echo(f"{typer.style(name, bold=True)}  {state}")
    for fact, words in facts(template, **values):
        typer.echo(f"{fact:<9} {words}")


# --- a question at this terminal that does not hold up the event loop: the answer arrives as a call ------


def ask_for(prompt: str, on_answer: Callable[..., None], *arguments: Any) -> None:
    """Show a prompt, and call `on_answer` when a line can be read; what was typed before it was shown is no
    answer to it."""
    import asyncio

    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    print(prompt, end="", flush=True)
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), on_answer, *arguments)


def read_line() -> str:
    """The line that was typed; "" when the terminal is gone."""
    take_back()
    return sys.stdin.readline()


def take_back() -> None:
    """The question is settled otherwise."""
    import asyncio

    asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
