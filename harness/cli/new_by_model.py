"""`harness new "WORDS"` with a language model: what is written, and what the person is shown."""

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from harness.cli.asking import Choice, held_signals, print_cost, with_model
from harness.cli.console import console

if TYPE_CHECKING:
    from harness.author.draft import Brief
    from harness.author.draft_session import DraftSession
    from harness.author.publish import HandedOver, Row
    from harness.providers.conversation import Account, Ended

_WIDEST_VALUE = 40


def write(brief: "Brief", choice: Choice) -> int | None:
    """Let the model write the experiment, and print what it made. Returns the exit status, or None when there
    is nothing because the model could not be asked."""
    from harness.author.draft_session import DraftSession
    from harness.author.publish import check_place, hand_over
    from harness.providers.conversation import Account

    check_place(brief)
    session, account = DraftSession(brief), Account()
    with tempfile.TemporaryDirectory() as folder, held_signals() as stop:
        transcript = Path(folder) / "transcript.jsonl"
        transcript.touch(mode=0o600)
        try:
            ended = asyncio.run(with_model(choice, account, transcript, stop, session.write))
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
    _print(made, ended)
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


def _print(made: "HandedOver", ended: "Ended") -> None:
    out, blueprint = console(), made.folder / "blueprint.md"
    out.print(f"written: {', '.join(str(made.folder / name) for name in made.files)}", markup=False)
    if ended.trouble:
        out.print("It is unfinished: the model had not handed it over. Read it before you run it.")
    _print_rows("What will run", made.plan)
    _print_rows("Config (what is not shown is the template's or the trainer's default)", made.config)
    _print_list("Assumed", made.assumptions)
    _print_list("Please look at", made.look_at)
    _print_list("Not on this machine", made.findings.needs)
    _print_list("Notes of the check", made.findings.warnings)
    _print_list("Problems that are left", made.findings.problems)
    where = ", where there is what it needs" if made.findings.needs else ""
    out.print(f"\nnext:    harness check {blueprint}\n         harness run {blueprint}{where}", markup=False)


def _print_rows(title: str, rows: "list[Row]") -> None:
    if not rows:
        return
    names, values = (max(len(getattr(row, part)) for row in rows) for part in ("name", "value"))
    console().print(f"\n{title}", markup=False)
    for row in rows:
        value = " ".join(row.value.split())
        shown = f"  {row.name:<{names}}  {value:<{min(values, _WIDEST_VALUE)}}  {row.source}"
        console().print(shown, markup=False)


def _print_list(title: str, sentences: tuple[str, ...]) -> None:
    if not sentences:
        return
    console().print(f"\n{title}", markup=False)
    for sentence in sentences:
        console().print(f"  - {' '.join(sentence.split())}", markup=False)
