"""`harness run`: carry an experiment to its end, with a live display and a way out."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options
from harness.cli.console import console, fail
from harness.cli.detaching import detach as detach_harness

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
    allow_code_changes: options.AllowCodeChanges = False,
    max_time: Annotated[
        str | None,
        typer.Option(
            "--max-time", metavar="TIME", help="At most this long, such as 90min; the blueprint may say less."
        ),
    ] = None,
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
    chosen = given.over(RunOptions())
    plan = options.within(max_time, check_surroundings(read(blueprint)))
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
        detach_harness(experiment, experiment.state.experiment_id)
    else:
        carry_on(experiment)


def carry_on(experiment: "Experiment") -> None:
    """Run the loop in this process and end with the outcome's exit status."""
    from harness.cli.foreground import Foreground
    from harness.repair.worktree import PatchError
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
