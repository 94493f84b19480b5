"""`harness resume`: go on with runs and sweeps whose harness went away."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from harness.cli import options
from harness.cli.console import fail, find_any
from harness.cli.detaching import detach
from harness.cli.run import carry_on

if TYPE_CHECKING:
    from harness.experiment import Experiment


def resume(
    run: Annotated[
        str | None,
        typer.Argument(help="A result folder, the name or the id of a run or a sweep; default: newest."),
    ] = None,
    resume_all: Annotated[
        bool, typer.Option("--all", help="Every unfinished run and sweep that nobody watches.")
    ] = False,
    policy: options.PolicyName = None,
    model: options.ModelName = None,
    max_cost: options.MaxCost = None,
    max_llm_calls: options.MaxCalls = None,
    approve: options.Approve = None,
    pass_key: options.PassKey = None,
    keep_session: options.KeepSession = False,
    allow_install: options.AllowInstall = False,
    allow_code_changes: options.AllowCodeChanges = False,
) -> None:
    """Go on with a run or a sweep whose harness went away: no training was interrupted, and none is launched
    twice."""
    from harness.experiment import Experiment
    from harness.journal import JournalDamagedError, JournalOwnedError
    from harness.journal.events import OptionsGiven
    from harness.result_folders import is_sweep

    given = options.Given(
        policy,
        model,
        max_cost,
        max_llm_calls,
        approve,
        pass_key,
        keep_session,
        allow_install,
        allow_code_changes,
    )
    if resume_all:
        if given != options.Given():
            fail("--all goes on with every run as it was started; give options to one run")
        _resume_all()
        return
    folder = find_any(run)
    if is_sweep(folder):
        if given != options.Given():
            fail("a sweep goes on as it was started; its runs can be given other options one by one")
        _resume_sweep(folder)
    try:
        experiment = Experiment.open(folder)
    except (JournalOwnedError, JournalDamagedError) as error:
        fail(str(error))
    if experiment.state.finished_at is None and given != options.Given():
        experiment.record(OptionsGiven(given.over(experiment.state.options)))
    carry_on(experiment)


def _resume_sweep(folder: Path) -> NoReturn:
    from harness.cli.sweep_foreground import carry_on_sweep

    carry_on_sweep(folder)


def _resume_all() -> None:
    """Put a harness in a session of its own for every unfinished run and sweep that nobody watches, and say
    what became of it meanwhile. The runs of an unfinished sweep are the sweep's to go on with."""
    from harness import index
    from harness.result_folders import sweep_of

    sweeps = [entry.dir for entry in index.sweeps() if not _is_finished(entry.dir)]
    runs = [entry.dir for entry in index.runs() if not _is_finished(entry.dir)]
    found = sum(_go_on(folder, _go_on_with_sweep, "sweep.jsonl") for folder in sweeps)
    alone = [folder for folder in runs if sweep_of(folder) not in sweeps]
    found += sum(_go_on(folder, _go_on_with_run, "journal.jsonl") for folder in alone)
    if not found:
        typer.echo("no unfinished run without a harness")


def _is_finished(folder: Path) -> bool:
    return (folder / "finish.flag").exists()


def _go_on(folder: Path, go_on: Callable[[Path], None], journal_name: str) -> bool:
    """Whether nobody had watched what is in this folder; what goes wrong with one holds up no other."""
    from harness import journal
    from harness.sweep.plan import SweepError

    try:
        if journal.is_owned(folder / journal_name):
            return False
        go_on(folder)
    except (
        journal.JournalDamagedError,
        journal.JournalOwnedError,
        SweepError,
        OSError,
        ValueError,
    ) as error:
        typer.echo(f"skipped {folder}: {error}", err=True)
    except typer.Exit:
        pass  # why it could not be detached has been said
    return True


def _go_on_with_sweep(folder: Path) -> None:
    from harness.sweep import snapshot
    from harness.sweep.ending import seal
    from harness.sweep.sweep import Sweep

    sweep = Sweep.open(folder)
    if sweep.state.finished_at is not None:
        seal(sweep)
        sweep.close()
        return
    state = sweep.state
    snapshot.environment(sweep.folder)  # what is missing is said here, where somebody reads it
    typer.echo(f"{folder}: {len(state.of('running'))} runs were running, {len(state.of('queued'))} queued")
    detach(sweep, state.sweep_id)


def _go_on_with_run(folder: Path) -> None:
    import time

    from harness import index
    from harness.experiment import Experiment
    from harness.resume_status import aftermath

    state = index.load_state(folder)
    typer.echo(f"{folder}: {aftermath(state, folder, time.time())}")
    if state.finished_at is None:
        detach(Experiment.open(folder), state.experiment_id)
    else:
        _seal(Experiment.open(folder))


def _seal(experiment: "Experiment") -> None:
    """Write the finish.flag of a run that was killed between its last entry and its flag."""
    from harness.agent.executor import Executor

    Executor(experiment).seal()
    experiment.close()
