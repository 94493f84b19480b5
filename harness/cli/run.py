"""`harness run` and `harness resume`: carry experiments to their end, here or in a tmux session."""

import os
import shlex
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from harness import index
from harness.cli import options
from harness.cli.console import RunOrSweep, console, fail
from harness.cli.new_run import command_of
from harness.errors import UserError

if TYPE_CHECKING:
    from harness.blueprint import Blueprint
    from harness.experiment import Experiment
    from harness.notifications import MessageSender
    from harness.sweep.state import Sweep
    from monitors.files import AttemptFiles
    from monitors.tmux import Session

PATIENCE_S = 60.0
SHELL_PATIENCE_S = 120.0
LOOK_EVERY_S = 0.05


@options.of_a_run
def run(
    context: typer.Context,
    blueprint: Annotated[
        Path | None, typer.Argument(metavar="BLUEPRINT", help="The written plan (Markdown).")
    ] = None,
    purpose: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="What the run should find out (only with `-- COMMAND`)."),
    ] = None,
    result_dir: Annotated[
        Path | None,
        typer.Option("--result-dir", metavar="FOLDER", help="Where the results go; overrides the blueprint."),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return at once; the run goes on in a tmux session of its own.")
    ] = False,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Show what would be launched, and launch nothing.")
    ] = False,
    max_time: Annotated[
        str | None,
        typer.Option(
            "--max-time",
            metavar="TIME",
            help="Stop after this long, such as 90min, or earlier if the blueprint says so.",
        ),
    ] = None,
    *,
    given: options.Given,
) -> None:
    """Run one experiment to its report: a blueprint, or `-- COMMAND`.

    `harness run -- python train.py --lr 1e-3` writes the blueprint itself, into the result folder.

    Exit status: 0 succeeded, 1 failed, 2 cannot run, 3 timed out, 4 stopped early, 130 cancelled.
    """
    from harness import experiment as experiments
    from harness import notifications
    from harness.options import RunOptions

    chosen = given.over(RunOptions())
    notifications.check(given.notify or ())
    plan, text = _plan(command_of(context), blueprint, purpose, max_time, result_dir)
    if read_only:
        from harness.cli.plan_only import plan_only

        plan_only(plan, chosen, text)
        return
    try:
        experiment = experiments.create(plan, chosen, text=text)
    except OSError as error:
        why = f"the result folder {plan.result_dir} cannot be made: {error.strerror}"
        fail(f"{why}; correct [exp_result_dir]")
    console().print(f"results: {experiment.dir}")
    notifications.keep(experiment.state.experiment_id, given.notify or ())
    if detach:
        let_go(experiment, experiment.state.experiment_id)
    else:
        carry_on(experiment)


def _plan(
    command: str, blueprint: Path | None, purpose: str | None, max_time: str | None, result_dir: Path | None
) -> tuple["Blueprint", str | None]:
    """The plan, and its text where it is in no file yet."""
    from harness.blueprint import check_surroundings
    from harness.cli.check import print_problems, runnable
    from harness.cli.new_run import blueprint_for

    if (blueprint is None) == (not command):
        fail("name a blueprint, or a command after `--`: harness run -- python train.py --lr 1e-3")
    if blueprint is None:
        plan, text = blueprint_for(command, purpose, options.seconds_of(max_time), result_dir)
        plan = check_surroundings(plan)
        print_problems(plan)
        return plan if plan.can_run else fail("the command cannot run"), text
    if purpose is not None:
        fail(f"--purpose goes with a command; that of a blueprint stands in its [exp_purpose] ({blueprint})")
    plan = options.within(max_time, runnable(blueprint))
    return (replace(plan, result_dir=result_dir.absolute()) if result_dir else plan), None


@options.of_a_run
def resume(
    run: RunOrSweep = None,
    resume_all: Annotated[
        bool, typer.Option("--all", help="Continue every unfinished run and sweep that has no harness.")
    ] = False,
    *,
    given: options.Given,
) -> None:
    """Continue a run or a sweep whose harness is gone.

    A training that still runs is not interrupted, and none is launched twice.
    """
    if not resume_all:
        go_on_here(index.find(run), given=given)
    if given != options.Given():
        fail("--all goes on with every run as it was started; give options to one run")
    _resume_all()


def go_on_here(
    folder: Path, given: options.Given = options.Given(), stopped_by: str | None = None
) -> NoReturn:
    """Go on with the run or the sweep in this folder, and end with its exit status. `stopped_by`: who wants
    it to end."""
    from harness import elsewhere, environment, notifications
    from harness.experiment import Experiment
    from harness.journal.events import OptionsGiven, StopAsked

    is_changed = given != options.Given()
    elsewhere.check_taken_over(folder, console().print)
    if index.is_sweep(folder):
        if is_changed:
            fail("a sweep goes on as it was started; its runs can be given other options one by one")
        from harness.cli.sweep_foreground import carry_on_sweep

        carry_on_sweep(folder, stopped_by)
    notifications.check(given.notify or ())
    experiment = Experiment.open(folder)
    if experiment.state.finished_at is None and is_changed:
        notifications.keep(experiment.state.experiment_id, given.notify or ())
        experiment.record(OptionsGiven(given.over(experiment.state.options)))
    hidden = experiment.state.options.hidden
    if experiment.state.finished_at is None and stopped_by is not None:
        experiment.record(StopAsked(stopped_by))
    elif experiment.state.finished_at is None and (missing := environment.missing(folder, hidden)):
        said = f"set at the start and not in this shell: {', '.join(missing)}. Another attempt goes without"
        console().print(f"{said}; if it needs them, press Ctrl-C, export them, and resume again")
    carry_on(experiment)


def carry_on(experiment: "Experiment") -> NoReturn:
    """Run the loop in this process and end with the outcome's exit status."""
    import asyncio

    from harness.cli.foreground import RunForeground
    from harness.journal import JournalOwnedError
    from harness.repair.patched_code import PatchError
    from monitors.tmux import TmuxError

    with held(experiment, experiment.state.experiment_id, OSError, TmuxError, PatchError, JournalOwnedError):
        foreground = RunForeground(experiment)
        status = asyncio.run(foreground.run())
        if foreground.hands_over:
            _hand_over(experiment)
    raise typer.Exit(status)


def _hand_over(experiment: "Experiment") -> None:
    """Let go of the run for good once another process watches it; where none can, watch on without a
    terminal."""
    try:
        let_go(experiment, experiment.state.experiment_id)
    except (typer.Exit, OSError):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        experiment.listeners.clear()
        carry_on(experiment if experiment.journal.is_open else type(experiment).open(experiment.dir))


@contextmanager
def held(owned: "Experiment | Sweep", identity: str, *troubles: type[Exception]) -> Iterator[None]:
    """While this process carries on with a run or a sweep, a person is told what happens; then it is let go
    of. `identity`: its id; `troubles`: what a person can put right, a clear end."""
    from harness import installation

    installation.keep()
    notifier = _notifier(owned, identity)
    try:
        yield
    except troubles as error:
        where = getattr(error, "filename", None)
        what = f"{where}: {error.strerror}" if where and isinstance(error, OSError) else error
        if isinstance(error, InterruptedError):
            fail(f"{what}. A stop was asked for: {_way_on(owned, 'stop')}", 1)
        fail(f"{what}. Correct that: {_way_on(owned)}", 1)
    except typer.Exit:
        raise
    except Exception:
        typer.echo(f"harness: this is a defect of the harness; {_way_on(owned)}", err=True)
        raise
    finally:
        owned.close()
        notifier.close()


def _way_on(owned: "Experiment | Sweep", command: str = "resume") -> str:
    folder = owned.journal.folder_now() or owned.dir
    return f"`harness {command} {folder}` goes on from here, and a training that has begun runs on meanwhile"


def _notifier(owned: "Experiment | Sweep", identity: str) -> "MessageSender":
    """Tells at the addresses of harness.toml and `--notify` what happens from now on; of a sweep's runs, the
    sweep tells."""
    from harness import notifications
    from harness.providers.settings import ConfigurationError, find

    addresses = notifications.kept(identity)
    try:
        addresses += find(Path.cwd(), os.environ).notify
    except ConfigurationError as error:
        typer.echo(f"harness: {error}; its addresses are not notified", err=True)
    if index.sweep_of(owned.dir) is not None:
        addresses = ()
    notifier = notifications.MessageSender(owned.dir, identity, addresses)
    owned.listeners.append(notifier)
    return notifier


def let_go(owned: "Experiment | Sweep", identity: str) -> None:
    """Let go of a run or a sweep, and start `harness resume` on it in a tmux session of its own, the
    supervised way; a clear end where that cannot be done. `identity`: its id."""
    from harness import journal
    from harness.journal.events import Detached
    from harness.redaction import is_secret
    from harness.self_command import HARNESS
    from monitors.files import AttemptFiles
    from monitors.launch import LaunchError, LaunchSpec, environment_of_caller, launch, state_home
    from monitors.tmux import TmuxError, session_name

    folder, environment = owned.dir, environment_of_caller()
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
        env=environment,
        secret_env={name: value for name, value in environment.items() if is_secret(name, value)},
        spare_daemons=True,
    )
    try:
        _await_successor(owned, launch(spec), AttemptFiles(spec.attempt_dir))
    except (TmuxError, LaunchError, OSError) as error:
        fail(f"{error}; nothing is lost: `harness resume {folder}`")
    with suppress(OSError):  # the terminal may be gone
        typer.echo(f"running on in tmux session {name}; `harness show {folder}` looks at it")


def _await_successor(owned: "Experiment | Sweep", session: "Session", files: "AttemptFiles") -> None:
    """Wait until another harness has taken over in this tmux session; a clear end where none does in time.
    The start-up files of the session's shell may take longer than the harness, and swallow its line."""
    from harness import journal
    from monitors.launch import SWALLOWED_AFTER_S, type_launch_line

    folder, name, began = owned.dir, session.name, time.monotonic()
    started = typed = began
    while not journal.is_owned(owned.journal.path) and not (folder / "finish.flag").exists():
        now = time.monotonic()
        if files.state() == "not_started":
            started = now
            if now - typed >= SWALLOWED_AFTER_S:
                typed = now
                type_launch_line(files, session)
        if now - began > SHELL_PATIENCE_S and started == now:
            fail(
                f"the shell in tmux session {name} has not come to its first command in "
                f"{SHELL_PATIENCE_S:g} s (start-up files of the shell?). It goes on by itself when it does: "
                f"`harness show {folder}` looks at it, `harness resume {folder}` goes on here instead"
            )
        if files.exit() is not None or now - started > PATIENCE_S:
            fail(f"it did not go on in tmux session {name} ({files.pane_log}): `harness resume {folder}`")
        time.sleep(LOOK_EVERY_S)


def _resume_all() -> None:
    """Put a harness in a session of its own for every unfinished run and sweep that has none, and say
    what became of it meanwhile. The runs of an unfinished sweep are the sweep's to go on with."""
    from harness import journal

    unfinished = [entry for entry in index.everything() if not (entry.dir / "finish.flag").exists()]
    sweeps = [entry.dir for entry in unfinished if entry.kind == "sweep"]
    runs = [
        entry.dir for entry in unfinished if entry.kind == "run" and index.sweep_of(entry.dir) not in sweeps
    ]
    found = False
    for folder in (*sweeps, *runs):
        try:
            if journal.is_owned(index.journal_of(folder)):
                continue
            found = True
            _go_on_detached(folder)
        except (UserError, OSError, ValueError) as error:  # what goes wrong with one holds up no other
            found = True
            typer.echo(f"skipped {folder}: {error}", err=True)
        except typer.Exit:
            pass  # why it could not be detached has been said
    if not found:
        typer.echo("no unfinished run without a harness")


def _go_on_detached(folder: Path) -> None:
    """Let another process go on, or write the finish.flag where only that is missing."""
    from harness import elsewhere
    from harness.agent.executor import Executor
    from harness.experiment import Experiment
    from harness.resume_status import aftermath
    from harness.sweep import snapshot
    from harness.sweep.reporting import seal
    from harness.sweep.state import Sweep

    elsewhere.check_taken_over(folder, typer.echo)
    if index.is_sweep(folder):
        sweep = Sweep.open(folder)
        if sweep.state.finished_at is not None:
            seal(sweep)
            sweep.close()
            return
        snapshot.environment(sweep.folder)  # what is missing is said here, where somebody reads it
        counts = (len(sweep.state.of(status)) for status in ("running", "queued"))
        typer.echo("{}: {} runs were running, {} queued".format(folder, *counts))
        let_go(sweep, sweep.state.sweep_id)
        return
    experiment = Experiment.open(folder)
    state = experiment.state
    typer.echo(f"{folder}: {aftermath(state, folder, experiment.clock())}")
    if state.finished_at is None:
        let_go(experiment, state.experiment_id)
    else:
        Executor(experiment).seal()
        experiment.close()
