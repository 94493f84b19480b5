"""`harness stop`: end a run or a sweep, whether or not a harness is watching it."""

import os
import signal
import socket
import time
from pathlib import Path

import typer

from harness import index
from harness.cli.console import OnlyOne, fail

PATIENCE_S = 600.0
ASK_AGAIN_S = 0.5


def stop(run: OnlyOne = None) -> None:
    """Stop a run, or all runs of a sweep, and write the report.

    The outcome is `cancelled`, unless the training had ended before. Without a name, the only unfinished run
    or sweep is stopped. Exit status: 0.
    """
    from harness import journal
    from harness.sweep.state import Sweep

    folder = index.find(run) if run is not None else index.only(index.unfinished(), "unfinished run")
    state = Sweep.load_state(folder) if index.is_sweep(folder) else index.load_state(folder)
    if state.verdict is not None:
        typer.echo(f"{folder} has already finished")
        return
    path, flag, give_up = index.journal_of(folder), folder / "finish.flag", time.monotonic() + PATIENCE_S
    owner = journal.last_owner(path) if journal.is_owned(path) else None
    if owner is None:
        _stop_here(folder)
        return
    if owner.host != socket.gethostname():
        fail(f"{folder} is run by process {owner.pid} on {owner.host}: stop it there")
    while not flag.exists():
        if time.monotonic() > give_up:
            fail(f"process {owner.pid} was asked to stop but has not finished after {PATIENCE_S:.0f} s", 1)
        if journal.is_owned(path):
            os.kill(owner.pid, signal.SIGUSR1)
            time.sleep(ASK_AGAIN_S)
            continue
        time.sleep(ASK_AGAIN_S)  # it may be on its way out
        if not flag.exists():
            _stop_here(folder)
            return
    _say_how_it_ended(folder)


def _say_how_it_ended(folder: Path) -> None:
    from harness.outcome import Outcome
    from harness.results.raw import json_file

    outcome = (json_file(folder / "finish.flag", "finish.flag", []) or {}).get("outcome")
    is_stopped = outcome in (Outcome.CANCELLED.value, None)
    typer.echo(f"stopped: {folder}" if is_stopped else f"its training had ended ({outcome}): {folder}")


def _stop_here(folder: Path) -> None:
    """Take over a run that nobody watches, and end it; a clear end where that failed."""
    from harness.cli.run import go_on_here

    try:
        go_on_here(folder, stopped_by="`harness stop`")
    except typer.Exit:
        if not (folder / "finish.flag").exists():
            raise
    _say_how_it_ended(folder)
