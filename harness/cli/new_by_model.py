"""`harness new "WORDS"` with a language model: what is written, and what the person is shown."""

from functools import partial

import typer

from harness.author.draft import Brief
from harness.author.draft_session import DraftSession
from harness.author.publish import check_place, hand_over, keep_beside
from harness.cli.asking import Choice, Conversation, conversation
from harness.cli.console import console
from harness.providers.conversation import talk
from harness.templating import render


def write(brief: Brief, choice: Choice) -> int | None:
    """Let the model write the experiment, and print what it made. Returns the exit status, or None when there
    is nothing because the model could not be asked."""
    check_place(brief)
    session = DraftSession(brief)
    with conversation(choice) as held:
        try:
            ended = held.hold(partial(talk, session))
            made = hand_over(session, held.transcript)
        except BaseException:
            _keep(session, held)
            raise
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


def _keep(session: DraftSession, held: Conversation) -> None:
    """Save what was paid for when it cannot be handed over, and say where it is."""
    if held.account.spending.calls == 0:
        return
    folder = keep_beside(session, held.transcript)
    said = f"what was made is kept in {folder}" if folder else "what was made could be written nowhere"
    typer.echo(f"harness: {said}", err=True)
