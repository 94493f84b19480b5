"""`harness run` and `harness resume`: carry experiments to their end, with a live display and a way out."""

import asyncio
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.console import console, fail, find_run

if TYPE_CHECKING:
    from harness.experiment import Experiment

KeepSession = Annotated[bool, typer.Option("--keep-session", help="Leave the tmux session open at the end.")]


def run(
    blueprint: Annotated[Path, typer.Argument(help="The written plan (Markdown).")],
    detach: Annotated[
        bool, typer.Option("--detach", help="Start, put the harness in its own tmux session, return.")
    ] = False,
    keep_session: KeepSession = False,
) -> None:
    """Run one experiment from its blueprint to its report.

    Exit status: 0 succeeded, 1 failed, 2 cannot run, 3 timed out, 4 stopped early, 130 cancelled.
    """
    from harness import experiment as experiments
    from harness.blueprint import check_surroundings, read
    from harness.cli.check import print_problems
    from harness.journal import JournalDamagedError, JournalOwnedError

    plan = check_surroundings(read(blueprint))
    print_problems(plan)
    if not plan.can_run:
        fail(f"{blueprint} cannot run; `harness check {blueprint}` shows how it was understood")
    try:
        experiment = experiments.create(plan)
    except (experiments.ExperimentUnfinishedError, JournalOwnedError, JournalDamagedError) as error:
        fail(str(error))
    except OSError as error:
        fail(f"the result folder {plan.result_dir} cannot be made: {error.strerror}; mend [exp_result_dir]")
    console().print(f"results: {experiment.dir}", markup=False)
    if detach:
        _detach(experiment, keep_session)
    else:
        carry_on(experiment, keep_session)


def resume(
    run: Annotated[
        str | None, typer.Argument(help="A result folder, a run's name or its id; default: newest.")
    ] = None,
    resume_all: Annotated[
        bool, typer.Option("--all", help="Every unfinished run that nobody watches.")
    ] = False,
    keep_session: KeepSession = False,
) -> None:
    """Go on with a run whose harness went away: the training was not interrupted and is not launched
    twice."""
    from harness.experiment import Experiment
    from harness.journal import JournalDamagedError, JournalOwnedError

    if resume_all:
        _resume_all(keep_session)
        return
    folder = find_run(run)
    try:
        experiment = Experiment.open(folder)
    except (JournalOwnedError, JournalDamagedError) as error:
        fail(str(error))
    carry_on(experiment, keep_session)


def carry_on(experiment: "Experiment", keep_session: bool) -> None:
    """Run the loop in this process and end with the outcome's exit status."""
    from harness.cli.foreground import Foreground
    from monitors.tmux import TmuxError

    way_on = f"what runs goes on running, and `harness resume {experiment.dir}` goes on from here"
    try:
        status = asyncio.run(Foreground(experiment, keep_session).run())
    except (OSError, TmuxError) as error:
        fail(f"{error}. Mend that: {way_on}", 1)
    except Exception:
        typer.echo(f"harness: this is a defect of the harness; {way_on}", err=True)
        raise
    finally:
        experiment.close()
    raise typer.Exit(status)


def _resume_all(keep_session: bool) -> None:
    """Put a harness in a session of its own for every unfinished run that nobody watches."""
    from harness import index, journal
    from harness.experiment import Experiment

    found = 0
    for entry in index.runs():
        path = entry.dir / "journal.jsonl"
        try:
            unfinished = index.load_state(entry.dir).verdict is None and not journal.is_owned(path)
        except journal.JournalDamagedError as error:
            typer.echo(f"skipped: {error}", err=True)
            continue
        if unfinished:
            found += 1
            try:
                _detach(Experiment.open(entry.dir), keep_session)
            except (journal.JournalOwnedError, OSError, typer.Exit) as error:
                typer.echo(f"skipped {entry.dir}: {error}", err=True)
    if not found:
        typer.echo("no unfinished run without a harness")


def _detach(experiment: "Experiment", keep_session: bool) -> None:
    """Start `harness resume` on this experiment the supervised way, in a tmux session of its own."""
    from monitors.launch import LaunchSpec, environment_of_caller, launch, state_home
    from monitors.tmux import Session, TmuxError, session_name

    state = experiment.state
    take_over = len(list(experiment.journal.of_kind("owner")))
    name = session_name(f"watch_{state.name}", state.experiment_id[:4], take_over)
    command = [sys.executable, "-m", "harness.cli.app", "resume", str(experiment.dir)]
    command += ["--keep-session"] if keep_session else []
    experiment.record("detached", session=name)
    experiment.close()
    spec = LaunchSpec(
        attempt_dir=state_home() / "watch" / f"{state.experiment_id}-{take_over:02d}",
        attempt_id=f"watch-{state.experiment_id}-{take_over:02d}",
        session_name=name,
        command=shlex.join(command),
        cwd=Path.cwd(),
        env=environment_of_caller(),
    )
    try:
        launch(spec, Session.create(name, Path.cwd()))
    except TmuxError as error:
        fail(f"{error}; nothing is lost: `harness resume {experiment.dir}`")
    typer.echo(
        f"running on in tmux session {name}; look with `harness show {experiment.dir}` or `harness logs -f`"
    )
