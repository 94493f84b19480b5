"""`harness new "WORDS"` with a language model: what is written, and what the person is shown."""

import asyncio
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from harness.cli.asking import Choice, held_signals, print_cost, with_model
from harness.cli.console import console
from harness.templating import render

if TYPE_CHECKING:
    from harness.author.draft import Brief
    from harness.author.draft_session import DraftSession
    from harness.providers.conversation import Account


def write(brief: "Brief", choice: Choice) -> int | None:
    """Let the model write the experiment, and print what it made. Returns the exit status, or None when there
    is nothing because the model could not be asked."""
    from harness.author.draft_session import DraftSession
    from harness.author.publish import check_place, hand_over
    from harness.providers.conversation import Account, talk

    check_place(brief)
    session, account = DraftSession(brief), Account()
    with tempfile.TemporaryDirectory() as folder, held_signals() as stop:
        transcript = Path(folder) / "transcript.jsonl"
        transcript.touch(mode=0o600)
        try:
            ended = asyncio.run(with_model(choice, account, transcript, stop, partial(talk, session)))
            made = hand_over(session, transcript)
        except BaseException:
            _keep(session, transcript, account)
            raise
        finally:
            print_cost(account, choice.config)
    if ended.trouble:
        typer.echo(f"harness: the model did not come to an end: {ended.trouble}", err=True)
    if made is None:
        typer.echo("harness: nothing was written", err=True)
        return 130 if ended.interrupted else None
    said = render(
        "console/written.txt.j2",
        made=made,
        files=[str(made.folder / name) for name in made.files],
        blueprint=made.folder / "blueprint.md",
        unfinished=bool(ended.trouble),
        line=lambda text: " ".join(text.split()),
    )
    console().print(said, end="")
    if ended.trouble:
        return 130 if ended.interrupted else 1
    return 2 if made.findings.problems else 0


def _keep(session: "DraftSession", transcript: Path, account: "Account") -> None:
    """Save what was paid for when it cannot be handed over, and say where it is."""
    from harness.author.publish import keep_beside

    if account.spending.calls == 0:
        return
    folder = keep_beside(session, transcript)
    said = f"what was made is kept in {folder}" if folder else "what was made could be written nowhere"
    typer.echo(f"harness: {said}", err=True)
