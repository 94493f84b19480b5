"""`harness run` and `harness resume`: carry experiments to their end, here or in a tmux session."""

import asyncio
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options
from harness.cli.console import console, fail, find_any
from harness.errors import UserError

if TYPE_CHECKING:
    from harness.experiment import Experiment
    from harness.sweep.sweep import Sweep

PATIENCE_S = 60.0
LOOK_EVERY_S = 0.05


@options.of_a_run
def run(
    blueprint: Annotated[Path, typer.Argument(help="The written plan (Markdown).")],
    detach: Annotated[
        bool, typer.Option("--detach", help="Start, put the harness in its own tmux session, return.")
    ] = False,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Only plan: say what would be launched, and do nothing.")
    ] = False,
    max_time: Annotated[
        str | None,
        typer.Option(
            "--max-time", metavar="TIME", help="At most this long, such as 90min; the blueprint may say less."
        ),
    ] = None,
    *,
    given: options.Given,
) -> None:
    """Run one experiment from its blueprint to its report.

    Exit status: 0 succeeded, 1 failed, 2 cannot run, 3 timed out, 4 stopped early, 130 cancelled.
    """
    from harness import experiment as experiments
    from harness.blueprint import check_surroundings, read
    from harness.cli.check import print_problems
    from harness.options import RunOptions

    chosen = given.over(RunOptions())
    plan = options.within(max_time, check_surroundings(read(blueprint)))
    print_problems(plan)
    if not plan.can_run:
        fail(f"{blueprint} cannot run; `harness check {blueprint}` shows how it was understood")
    if read_only:
        from harness.cli.plan_only import plan_only

        plan_only(plan, chosen)
        return
    try:
        experiment = experiments.create(plan, chosen)
    except OSError as error:
        why = f"the result folder {plan.result_dir} cannot be made: {error.strerror}"
        fail(f"{why}; correct [exp_result_dir]")
    console().print(f"results: {experiment.dir}", markup=False)
    if detach:
        let_go(experiment, experiment.state.experiment_id)
    else:
        carry_on(experiment)


@options.of_a_run
def resume(
    run: Annotated[
        str | None,
        typer.Argument(help="A result folder, the name or the id of a run or a sweep; default: newest."),
    ] = None,
    resume_all: Annotated[
        bool, typer.Option("--all", help="Every unfinished run and sweep without a harness.")
    ] = False,
    *,
    given: options.Given,
) -> None:
    """Go on with a run or a sweep whose harness went away: no training was interrupted, and none is launched
    twice."""
    from harness.experiment import Experiment
    from harness.index import is_sweep
    from harness.journal.events import OptionsGiven

    is_changed = given != options.Given()
    if resume_all:
        if is_changed:
            fail("--all goes on with every run as it was started; give options to one run")
        _resume_all()
        return
    folder = find_any(run)
    if is_sweep(folder):
        if is_changed:
            fail("a sweep goes on as it was started; its runs can be given other options one by one")
        from harness.cli.sweep_foreground import carry_on_sweep

        carry_on_sweep(folder)
    experiment = Experiment.open(folder)
    if experiment.state.finished_at is None and is_changed:
        experiment.record(OptionsGiven(given.over(experiment.state.options)))
    carry_on(experiment)


def carry_on(experiment: "Experiment") -> None:
    """Run the loop in this process and end with the outcome's exit status."""
    from harness.cli.foreground import RunForeground
    from harness.repair.text_patch import PatchError
    from monitors.tmux import TmuxError

    way_on = f"what runs goes on running, and `harness resume {experiment.dir}` goes on from here"
    try:
        status = asyncio.run(RunForeground(experiment).run())
    except (OSError, TmuxError, PatchError) as error:
        fail(f"{error}. Correct that: {way_on}", 1)
    except Exception:
        typer.echo(f"harness: this is a defect of the harness; {way_on}", err=True)
        raise
    finally:
        experiment.close()
    raise typer.Exit(status)


def let_go(owned: "Experiment | Sweep", identity: str) -> None:
    """Let go of a run or a sweep, and start `harness resume` on it in a tmux session of its own, the
    supervised way; a clear end where that cannot be done. `identity`: its id."""
    from harness import journal
    from harness.journal.events import Detached
    from harness.self_command import HARNESS
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


def _resume_all() -> None:
    """Put a harness in a session of its own for every unfinished run and sweep that has none, and say
    what became of it meanwhile. The runs of an unfinished sweep are the sweep's to go on with."""
    from harness import index
    from harness.index import sweep_of

    def unfinished(entries: list[index.IndexedRun]) -> list[Path]:
        return [entry.dir for entry in entries if not (entry.dir / "finish.flag").exists()]

    sweeps, runs = unfinished(index.everything("sweep")), unfinished(index.runs())
    alone = [folder for folder in runs if sweep_of(folder) not in sweeps]
    found = sum(_go_on(folder, _go_on_with_sweep, "sweep.jsonl") for folder in sweeps)
    found += sum(_go_on(folder, _go_on_with_run, "journal.jsonl") for folder in alone)
    if not found:
        typer.echo("no unfinished run without a harness")


def _go_on(folder: Path, go_on: Callable[[Path], None], journal_name: str) -> bool:
    """True if what is in this folder had no harness; what goes wrong with one holds up no other."""
    from harness import journal

    try:
        if journal.is_owned(folder / journal_name):
            return False
        go_on(folder)
    except (UserError, OSError, ValueError) as error:
        typer.echo(f"skipped {folder}: {error}", err=True)
    except typer.Exit:
        pass  # why it could not be detached has been said
    return True


def _go_on_with_sweep(folder: Path) -> None:
    from harness.sweep import snapshot
    from harness.sweep.ending import seal
    from harness.sweep.sweep import Sweep

    sweep = Sweep.open(folder)
    state = sweep.state
    if state.finished_at is not None:
        seal(sweep)
        sweep.close()
        return
    snapshot.environment(sweep.folder)  # what is missing is said here, where somebody reads it
    typer.echo(f"{folder}: {len(state.of('running'))} runs were running, {len(state.of('queued'))} queued")
    let_go(sweep, state.sweep_id)


def _go_on_with_run(folder: Path) -> None:
    from harness import index
    from harness.agent.executor import Executor
    from harness.experiment import Experiment
    from harness.resume_status import aftermath

    state = index.load_state(folder)
    typer.echo(f"{folder}: {aftermath(state, folder, time.time())}")
    experiment = Experiment.open(folder)
    if state.finished_at is None:
        let_go(experiment, state.experiment_id)
    else:  # killed between its last entry and its finish.flag
        Executor(experiment).seal()
        experiment.close()
