"""`harness stop`: end a run or a sweep, whether or not a harness is watching it; `harness approve`."""

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.console import fail, find_any, find_run

if TYPE_CHECKING:
    from harness.journal import Owner

PATIENCE_S = 600.0
ASK_AGAIN_S = 0.5


def stop(
    run: Annotated[
        str | None,
        typer.Argument(help="A result folder, the name or the id of a run or a sweep; default: newest."),
    ] = None,
) -> None:
    """Stop a run: the training is ended, the report is written, the outcome is `cancelled`. Of a sweep, all
    runs."""
    from harness import journal

    folder = find_any(run)
    if _has_finished(folder):
        typer.echo(f"{folder} has already finished")
        return
    owner = _live_owner(folder)
    if owner is None:
        _stop_unwatched(folder)
        return
    if owner.host != journal.Owner.this_process().host:
        fail(f"{folder} is run by process {owner.pid} on {owner.host}: stop it there")
    give_up = time.monotonic() + PATIENCE_S
    while not (folder / "finish.flag").exists():
        if time.monotonic() > give_up:
            fail(f"process {owner.pid} was asked to stop but has not finished after {PATIENCE_S:.0f} s", 1)
        if not journal.is_owned(_journal(folder)):
            time.sleep(ASK_AGAIN_S)  # it may be on its way out
            if not (folder / "finish.flag").exists():
                _stop_unwatched(folder)
            break
        os.kill(owner.pid, signal.SIGUSR1)
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


def _journal(folder: Path) -> Path:
    from harness.index import is_sweep
    from harness.sweep.folder import SweepFolder

    return SweepFolder(folder).journal if is_sweep(folder) else folder / "journal.jsonl"


def _has_finished(folder: Path) -> bool:
    from harness import index
    from harness.index import is_sweep
    from harness.sweep import sweep

    state = sweep.load_state(folder) if is_sweep(folder) else index.load_state(folder)
    return state.verdict is not None


def _live_owner(folder: Path) -> "Owner | None":
    """Who holds the journal now, once that is written; None when no process does."""
    from harness import journal

    path = _journal(folder)
    return journal.last_owner(path) if journal.is_owned(path) else None


def _stop_unwatched(folder: Path) -> None:
    from harness.cli.run import carry_on
    from harness.experiment import Experiment
    from harness.index import is_sweep
    from harness.journal.events import StopAsked

    if is_sweep(folder):
        from harness.cli.sweep_foreground import carry_on_sweep

        carry_on_sweep(folder, stopped_by="`harness stop`")
    experiment = Experiment.open(folder)
    experiment.record(StopAsked("`harness stop`"))
    carry_on(experiment)
