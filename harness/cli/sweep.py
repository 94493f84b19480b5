"""`harness sweep`: many blueprints from one, run side by side, compared at the end."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import options
from harness.cli.console import fail

if TYPE_CHECKING:
    from harness.blueprint import Blueprint
    from harness.options import RunOptions
    from harness.sweep.spec import SweepSpec
    from harness.sweep.types import SweepPlan

Words = list[str] | None


def sweep(
    what: Annotated[
        str,
        typer.Argument(
            metavar="BLUEPRINT|SWEEP.yaml|QUESTION",
            help="A blueprint to vary, a sweep as `harness new sweep` writes it, or in quotes a question "
            "that a language model plans a sweep for (with --from).",
        ),
    ],
    vary: Annotated[
        Words,
        typer.Option(
            "--vary",
            metavar="KEY=V1,V2",
            help="What differs: a config key, arg:--flag of the command, or env:NAME. Once per key.",
        ),
    ] = None,
    settings: Annotated[
        Words, typer.Option("--set", metavar="KEY=VALUE", help="What is set in all points alike.")
    ] = None,
    design: Annotated[
        str | None, typer.Option("--design", help="grid (default), one-at-a-time or random.")
    ] = None,
    samples: Annotated[int | None, typer.Option("--samples", help="Points of a random design.")] = None,
    seeds: Annotated[
        str | None, typer.Option("--seeds", metavar="N|S1,S2", help="How many seeds per point, or which.")
    ] = None,
    seed_key: Annotated[
        str | None, typer.Option("--seed-key", metavar="KEY", help="What sets the seed, such as arg:--seed.")
    ] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", help="What is compared, such as val/task_pass_rate@1.")
    ] = None,
    goal: Annotated[str | None, typer.Option("--goal", help="max (default) or min.")] = None,
    threshold: Annotated[
        float | None, typer.Option("--threshold", help="Time is measured to this value of the metric.")
    ] = None,
    parallel: Annotated[int | None, typer.Option("--parallel", min=1, help="Runs at once.")] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", metavar="TIME", help="Wall-clock time for all of it: 12h.")
    ] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", min=0, help="GPUs of one run.")] = None,
    canary: Annotated[
        Words,
        typer.Option(
            "--canary",
            metavar="KEY=VALUE|false",
            help="What makes the short first run short, or false for none.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the sweep and its folder.")] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="BLUEPRINT", help="The blueprint that a question is about."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show every run, what differs and what it takes; start nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON (with --dry-run).")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Start a proposed sweep without asking.")] = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Start, put the sweep in its own tmux session, return.")
    ] = False,
    policy: options.PolicyName = None,
    model: options.ModelName = None,
    max_cost: options.MaxCost = None,
    max_llm_calls: options.MaxCalls = None,
    pass_key: options.PassKey = None,
) -> None:
    """Vary one blueprint, run every variant with several seeds, and compare them.

    Exit status: 0 all runs succeeded, 1 some failed, 2 cannot run, 3 out of time, 130 cancelled.
    """
    from harness.options import RunOptions
    from harness.sweep.types import SweepError

    if as_json and not dry_run:
        fail("--json goes with --dry-run: a sweep that runs tells how it goes")
    chosen = options.Given(policy, model, max_cost, max_llm_calls, None, pass_key).over(RunOptions())
    fields = {
        "vary": vary, "set_": settings, "design": design, "samples": samples, "seeds": seeds,
        "seed_key": seed_key, "metric": metric, "goal": goal, "threshold": threshold, "parallel": parallel,
        "budget": budget, "canary": canary, "name": name, "each": None if gpus is None else {"gpus": gpus},
    }  # fmt: skip
    given = {field: value for field, value in fields.items() if value is not None}
    try:
        asked = _asked(what, source, given, chosen)
        _show(asked, as_json)
        if dry_run:
            return
        if asked.proposal is not None and not yes:
            _ask_person()
        _start(asked, detach)
    except SweepError as error:
        fail(str(error))


@dataclass(frozen=True)
class _Asked:
    """A sweep as it was asked for. `proposal`: what a model proposed it with, None from a person."""

    spec: "SweepSpec"
    blueprint: "Blueprint"
    plan: "SweepPlan"
    proposal: dict[str, Any] | None = None


def _asked(what: str, source: Path | None, given: dict[str, Any], chosen: "RunOptions") -> _Asked:
    """The plan that the command line, a sweep.yaml or a model asks for. Raises SweepError."""
    from harness.author.request_text import is_request
    from harness.sweep.create import planned
    from harness.sweep.spec import read_spec, spec_from_options
    from harness.sweep.types import SweepError

    path = Path(what)
    if path.suffix in (".yaml", ".yml"):
        if given or source is not None:
            raise SweepError(f"{what} says everything: change it there, or name its blueprint here instead")
        spec = read_spec(path)
    elif not path.exists() and is_request(what):
        return _proposed(what, source, given, chosen)
    else:
        spec = spec_from_options(path, **{"vary": [], **given})
    blueprint = _blueprint(spec.blueprint)
    return _Asked(spec, blueprint, planned(spec, blueprint, chosen))


def _proposed(what: str, source: Path | None, given: dict[str, Any], chosen: "RunOptions") -> _Asked:
    """The sweep that a model proposes for a question."""
    from harness.cli.sweep_by_model import propose
    from harness.sweep.create import planned, rehearse
    from harness.sweep.types import SweepError

    if source is None:
        raise SweepError("a question is about an experiment: name it with --from BLUEPRINT")
    blueprint = _blueprint(source)

    def checked(spec: "SweepSpec") -> "SweepPlan":
        plan = planned(spec, blueprint, chosen)
        rehearse(plan, blueprint)  # what it would refuse goes back to the model
        return plan

    plan, spec, kept = propose(what, blueprint, given, chosen, checked)
    return _Asked(spec, blueprint, plan, kept)


def _blueprint(path: Path) -> "Blueprint":
    from harness.blueprint import check_surroundings, read
    from harness.cli.check import print_problems

    plan = check_surroundings(read(path))
    print_problems(plan)
    if not plan.can_run:
        fail(f"{path} cannot run, so it cannot be varied; `harness check {path}` shows how it was understood")
    return plan


def _show(asked: _Asked, as_json: bool) -> None:
    """Print the plan, after everything that could be refused has been looked at."""
    from harness.cli.sweep_plan import as_json as plan_as_json
    from harness.cli.sweep_plan import expected_run_s, print_plan
    from harness.sweep.create import rehearse

    warnings = rehearse(asked.plan, asked.blueprint)
    estimate, most = expected_run_s(asked.blueprint), asked.blueprint.max_time_s
    if as_json:
        found = plan_as_json(asked.plan, estimate, most)
        typer.echo(json.dumps({**found, "warnings": list(warnings)}, indent=2, ensure_ascii=False))
        return
    print_plan(asked.plan, estimate, most)
    for warning in warnings:
        typer.echo(f"consider: {warning}", err=True)


def _ask_person() -> None:
    """Let the person see what a model proposed before anything runs."""
    if not sys.stdin.isatty():
        fail("a model proposed this sweep: look at it, and start it with --yes")
    if not typer.confirm("Start this sweep?"):
        raise typer.Exit(0)


def _start(asked: _Asked, is_detached: bool) -> None:
    from harness.cli.detaching import detach
    from harness.cli.sweep_foreground import lead
    from harness.sweep.create import make

    try:
        sweep = make(asked.spec, asked.plan, asked.blueprint, asked.proposal)
    except OSError as error:
        fail(f"the sweep cannot be written: {error}")
    typer.echo(f"results: {sweep.dir}")
    if is_detached:
        detach(sweep, sweep.state.sweep_id)
    else:
        lead(sweep)
