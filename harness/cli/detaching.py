"""Puts the harness of a run or a sweep into a tmux session of its own, where `harness resume` carries it
on."""

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from harness.cli.console import fail
from harness.self_command import HARNESS

PATIENCE_S = 60.0
LOOK_EVERY_S = 0.05

if TYPE_CHECKING:
    from harness.experiment import Experiment
    from harness.sweep.sweep import Sweep


def detach(owned: "Experiment | Sweep", identity: str) -> None:
    """Let go of it, and start `harness resume` on it the supervised way; a clear end where that cannot be
    done.
    `identity`: its id."""
    from harness import journal
    from harness.journal.events import Detached
    from monitors.files import AttemptFiles
    from monitors.launch import LaunchError, LaunchSpec, environment_of_caller, launch, state_home
    from monitors.tmux import Session, TmuxError, session_name

    folder = owned.dir
    take_over = len(list(owned.journal.of(journal.Owner)))
    name = session_name(f"watch_{owned.state.name}", identity[:4], take_over)
    owned.record(Detached(session=name))
    owned.close()
    spec = LaunchSpec(
        attempt_dir=state_home() / "watch" / f"{identity}-{take_over:02d}",
        attempt_id=f"watch-{identity}-{take_over:02d}",
        session_name=name,
        command=shlex.join([*HARNESS, "resume", str(folder)]),
        cwd=Path.cwd(),
        env=environment_of_caller(),
    )
    try:
        launch(spec, Session.create(name, Path.cwd()))
    except (TmuxError, LaunchError, OSError) as error:
        fail(f"{error}; nothing is lost: `harness resume {folder}`")
    files, give_up = AttemptFiles(spec.attempt_dir), time.monotonic() + PATIENCE_S
    while not journal.is_owned(owned.journal.path) and not (folder / "finish.flag").exists():
        if files.exit() is not None or time.monotonic() > give_up:
            fail(f"it did not go on in tmux session {name} ({files.pane_log}): `harness resume {folder}`")
        time.sleep(LOOK_EVERY_S)
    typer.echo(f"running on in tmux session {name}; `harness show {folder}` looks at it")
