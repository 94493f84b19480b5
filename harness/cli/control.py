"""`harness stop`: end a run, whether or not a harness is watching it."""

import os
import signal
import time
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.console import fail, find_run

PATIENCE_S = 600.0
ASK_AGAIN_S = 0.5


def stop(
    run: Annotated[
        str | None, typer.Argument(help="A result folder, a run's name or its id; default: newest.")
    ] = None,
) -> None:
    """Stop a run: the training is ended, the report is written, the outcome is `cancelled`."""
    from harness import index, journal

    folder = find_run(run)
    if index.load_state(folder).verdict is not None:
        typer.echo(f"{folder} has already finished")
        return
    owner = _live_owner(folder)
    if owner is None:
        _stop_unwatched(folder)
        return
    if owner.get("host") != journal.owner_data()["host"]:
        fail(f"{folder} is run by process {owner.get('pid')} on {owner.get('host')}: stop it there")
    give_up = time.monotonic() + PATIENCE_S
    while not (folder / "finish.flag").exists():
        if time.monotonic() > give_up:
            fail(f"process {owner['pid']} was asked to stop but has not finished after {PATIENCE_S:.0f} s", 1)
        if not journal.is_owned(folder / "journal.jsonl"):
            time.sleep(ASK_AGAIN_S)  # it may be on its way out
            if not (folder / "finish.flag").exists():
                _stop_unwatched(folder)
            break
        os.kill(int(owner["pid"]), signal.SIGUSR1)
        time.sleep(ASK_AGAIN_S)
    typer.echo(f"stopped: {folder}")


def approve(
    run: Annotated[
        str | None, typer.Argument(help="A result folder, a run's name or its id; default: newest.")
    ] = None,
    deny: Annotated[bool, typer.Option("--deny", help="Say no.")] = False,
) -> None:
    """Answer a run that waits for a person's approval (see `harness run --approve`)."""
    from harness import journal
    from harness.agent import approval

    folder = find_run(run)
    question = approval.open_question(journal.read(folder / "journal.jsonl"))
    if question is None:
        fail(f"{folder} asks for nothing now")
    approval.answer(folder, question, "no" if deny else "yes", "`harness approve`")
    typer.echo(f"{'denied' if deny else 'approved'}: {question.text}")


def _live_owner(folder: Path) -> dict | None:
    """Who holds the journal now, once it has said so; None when nobody does."""
    from harness import journal

    path = folder / "journal.jsonl"
    return journal.last_owner(journal.read(path)) if journal.is_owned(path) else None


def _stop_unwatched(folder: Path) -> None:
    from harness.cli.run import carry_on
    from harness.experiment import Experiment

    experiment = Experiment.open(folder)
    experiment.record("stop_asked", by="`harness stop`")
    carry_on(experiment)
