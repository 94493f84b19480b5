"""`harness run` and `harness resume`: carry experiments to their end, with a live display and a way out."""

import asyncio
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options
from harness.cli.console import console, fail, find_run

if TYPE_CHECKING:
    from harness.experiment import Experiment


def run(
    blueprint: Annotated[Path, typer.Argument(help="The written plan (Markdown).")],
    detach: Annotated[
        bool, typer.Option("--detach", help="Start, put the harness in its own tmux session, return.")
    ] = False,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Only plan: say what would be launched, and do nothing.")
    ] = False,
    policy: options.PolicyName = None,
    model: options.ModelName = None,
    max_cost: options.MaxCost = None,
    max_llm_calls: options.MaxCalls = None,
    approve: options.Approve = None,
    pass_key: options.PassKey = None,
    keep_session: options.KeepSession = False,
    allow_install: options.AllowInstall = False,
) -> None:
    """Run one experiment from its blueprint to its report.

    Exit status: 0 succeeded, 1 failed, 2 cannot run, 3 timed out, 4 stopped early, 130 cancelled.
    """
    from harness import experiment as experiments
    from harness.blueprint import check_surroundings, read
    from harness.cli.check import print_problems
    from harness.cli.plan_only import plan_only
    from harness.journal import JournalDamagedError, JournalOwnedError
    from harness.options import RunOptions

    given = options.Given(
        policy, model, max_cost, max_llm_calls, approve, pass_key, keep_session, allow_install
    )
    chosen = given.over(RunOptions())
    plan = check_surroundings(read(blueprint))
    print_problems(plan)
    if not plan.can_run:
        fail(f"{blueprint} cannot run; `harness check {blueprint}` shows how it was understood")
    if read_only:
        plan_only(plan, chosen)
        return
    try:
        experiment = experiments.create(plan, chosen)
    except (experiments.ExperimentUnfinishedError, JournalOwnedError, JournalDamagedError) as error:
        fail(str(error))
    except OSError as error:
        fail(f"the result folder {plan.result_dir} cannot be made: {error.strerror}; mend [exp_result_dir]")
    console().print(f"results: {experiment.dir}", markup=False)
    if detach:
        _detach(experiment)
    else:
        carry_on(experiment)


def resume(
    run: Annotated[
        str | None, typer.Argument(help="A result folder, a run's name or its id; default: newest.")
    ] = None,
    resume_all: Annotated[
        bool, typer.Option("--all", help="Every unfinished run that nobody watches.")
    ] = False,
    policy: options.PolicyName = None,
    model: options.ModelName = None,
    max_cost: options.MaxCost = None,
    max_llm_calls: options.MaxCalls = None,
    approve: options.Approve = None,
    pass_key: options.PassKey = None,
    keep_session: options.KeepSession = False,
    allow_install: options.AllowInstall = False,
) -> None:
    """Go on with a run whose harness went away: the training was not interrupted and is not launched
    twice."""
    from harness.experiment import Experiment
    from harness.journal import JournalDamagedError, JournalOwnedError

    given = options.Given(
        policy, model, max_cost, max_llm_calls, approve, pass_key, keep_session, allow_install
    )
    if resume_all:
        if given != options.Given():
            fail("--all goes on with every run as it was started; give options to one run")
        _resume_all()
        return
    folder = find_run(run)
    try:
        experiment = Experiment.open(folder)
    except (JournalOwnedError, JournalDamagedError) as error:
        fail(str(error))
    if experiment.state.finished_at is None and given != options.Given():
        experiment.record("options", **given.over(experiment.state.options).as_json())
    carry_on(experiment)


def carry_on(experiment: "Experiment") -> None:
    """Run the loop in this process and end with the outcome's exit status."""
    from harness.agent.repairing.worktree import PatchError
    from harness.cli.foreground import Foreground
    from monitors.tmux import TmuxError

    way_on = f"what runs goes on running, and `harness resume {experiment.dir}` goes on from here"
    try:
        status = asyncio.run(Foreground(experiment).run())
    except (OSError, TmuxError, PatchError) as error:
        fail(f"{error}. Mend that: {way_on}", 1)
    except Exception:
        typer.echo(f"harness: this is a defect of the harness; {way_on}", err=True)
        raise
    finally:
        experiment.close()
    raise typer.Exit(status)


def _resume_all() -> None:
    """Put a harness in a session of its own for every unfinished run that nobody watches, and say what became
    of its training meanwhile."""
    import time

    from harness import index, journal
    from harness.aftermath import aftermath
    from harness.experiment import Experiment

    found = 0
    for entry in index.runs():
        try:
            if (entry.dir / "finish.flag").exists() or journal.is_owned(entry.dir / "journal.jsonl"):
                continue
            found += 1
            state = index.load_state(entry.dir)
            typer.echo(f"{entry.dir}: {aftermath(state, entry.dir, time.time())}")
            if state.finished_at is None:
                _detach(Experiment.open(entry.dir))
            else:
                _seal(Experiment.open(entry.dir))
        except (journal.JournalDamagedError, journal.JournalOwnedError, OSError, ValueError) as error:
            typer.echo(f"skipped {entry.dir}: {error}", err=True)
        except typer.Exit:
            continue  # why it could not be detached has been said; the other runs are not held up by it
    if not found:
        typer.echo("no unfinished run without a harness")


def _seal(experiment: "Experiment") -> None:
    """Write the finish.flag of a run that was killed between its last entry and its flag."""
    from harness.agent.hands import Hands

    Hands(experiment).seal()
    experiment.close()


def _detach(experiment: "Experiment") -> None:
    """Start `harness resume` on this experiment the supervised way, in a tmux session of its own."""
    from monitors.launch import LaunchSpec, environment_of_caller, launch, state_home
    from monitors.tmux import Session, TmuxError, session_name

    state = experiment.state
    take_over = len(list(experiment.journal.of_kind("owner")))
    name = session_name(f"watch_{state.name}", state.experiment_id[:4], take_over)
    command = [sys.executable, "-m", "harness.cli.app", "resume", str(experiment.dir)]
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
