"""`harness sweep`: many blueprints from one, run side by side, compared at the end."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import options
from harness.cli.console import fail, print_json

if TYPE_CHECKING:
    from harness.blueprint import Blueprint
    from harness.options import RunOptions
    from harness.sweep.plan import SweepPlan
    from harness.sweep.spec import SweepSpec

NOT_VARIED = ", so it cannot be varied"
What = Annotated[
    str,
    typer.Argument(
        metavar="BLUEPRINT|SWEEP.yaml|QUESTION",
        help="A blueprint, a sweep.yaml (`harness new sweep` writes one), or a question in quotes, for which "
        "a language model plans the sweep (with --from).",
    ),
]
Vary = Annotated[
    list[str] | None,
    typer.Option(
        "--vary",
        metavar="KEY=V1,V2",
        help="Values to try of a config key, of arg:--flag of the command, or of env:NAME; repeatable.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Set a field of sweep.yaml, such as design=one-at-a-time, goal=min or each.gpus=2; any other "
        "key gets this value in every run.",
    ),
]
Seeds = Annotated[
    str | None,
    typer.Option("--seeds", metavar="N|S1,S2", help="How many seeds for each combination, or which ones."),
]
SeedKey = Annotated[
    str | None,
    typer.Option("--seed-key", metavar="KEY", help="What sets the seed of a run, such as arg:--seed."),
]
Metric = Annotated[
    str | None,
    typer.Option("--metric", metavar="NAME", help="The metric to compare, such as val/task_pass_rate@1."),
]
Parallel = Annotated[
    int | None, typer.Option("--parallel", metavar="N", min=1, help="How many runs at the same time.")
]
Goal = Annotated[
    str | None,
    typer.Option("--goal", metavar="max|min", help="Which way is better. By default what the name says."),
]
Budget = Annotated[
    str | None,
    typer.Option("--budget", metavar="TIME", help="Wall-clock time for the whole sweep, such as 12h."),
]
Source = Annotated[
    Path | None, typer.Option("--from", metavar="BLUEPRINT", help="The blueprint that a question is about.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show every run, what differs and what it takes, and start nothing.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the plan as JSON (with --dry-run).")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Start a sweep that a model proposed without asking.")]
Detach = Annotated[
    bool, typer.Option("--detach", help="Return at once; the sweep goes on in a tmux session of its own.")
]


def sweep(
    what: What,
    vary: Vary = None,
    settings: Settings = None,
    seeds: Seeds = None,
    seed_key: SeedKey = None,
    metric: Metric = None,
    goal: Goal = None,
    parallel: Parallel = None,
    budget: Budget = None,
    source: Source = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    yes: Yes = False,
    detach: Detach = False,
    policy: options.PolicyName = None,
    model: options.ModelName = None,
    max_cost: options.MaxCost = None,
    max_llm_calls: options.MaxCalls = None,
    pass_key: options.PassKey = None,
    notify: options.Notify = None,
) -> None:
    """Run variants of a blueprint over several seeds and compare them.

    Exit status: 0 all runs succeeded, 1 some failed, 2 cannot run, 3 out of time, 130 cancelled.
    """
    from harness import notifications
    from harness.options import RunOptions
    from harness.sweep.spec_text import fields_of

    if as_json and not dry_run:
        fail("--json goes with --dry-run: a sweep that runs tells how it goes")
    chosen = options.Given(policy, model, max_cost, max_llm_calls, None, pass_key).over(RunOptions())
    fixed = {"seed_key": seed_key, "metric": metric, "goal": goal, "parallel": parallel, "budget": budget}
    asked = _asked(what, source, fields_of(vary or (), settings or (), seeds=seeds, **fixed), chosen)
    _show(asked, as_json)
    notifications.check(notify or ())
    if not dry_run:
        _start(asked, detach, yes, notify or ())


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
    from harness.cli.check import runnable
    from harness.sweep.design import make_plan
    from harness.sweep.plan import SweepError
    from harness.sweep.spec_text import checked, read_spec

    path = Path(what)
    if path.suffix in (".yaml", ".yml"):
        if given or source is not None:
            raise SweepError(f"{what} says everything: change it there, or name its blueprint here instead")
        spec = read_spec(path)
    elif not path.exists() and is_request(what):
        if source is None:
            raise SweepError("a question is about an experiment: name it with --from BLUEPRINT")
        return _proposed(what, runnable(source, NOT_VARIED), given, chosen)
    else:
        spec = checked({"vary": {}, **given, "blueprint": path.absolute()})
    blueprint = runnable(spec.blueprint, NOT_VARIED)
    return _Asked(spec, blueprint, make_plan(spec, blueprint, chosen))


def _proposed(question: str, blueprint: "Blueprint", given: dict[str, Any], chosen: "RunOptions") -> _Asked:
    """The sweep that a model proposes for a question; a clear end where none is proposed."""
    from harness.cli import asking
    from harness.earlier_runs import estimate
    from harness.sweep.create import rehearse
    from harness.sweep.design import make_plan
    from harness.sweep.points import config_text
    from harness.sweep.proposal import Proposing

    def checked(spec: "SweepSpec") -> "SweepPlan":
        plan = make_plan(spec, blueprint, chosen)
        rehearse(plan, blueprint)  # what it would refuse goes back to the model
        return plan

    choice = asking.chosen(chosen.model, chosen.max_cost_usd, chosen.max_calls)
    if choice is None:
        fail(
            "a question needs a language model (--model anthropic:NAME, or `model` in the [llm] section of "
            "harness.toml); or say what to vary: `harness sweep BLUEPRINT --vary KEY=V1,V2`"
        )
    takes = estimate(blueprint, config_text(blueprint))
    errand = Proposing(question, blueprint, checked, choice.config.word.text, given, takes)
    with asking.conversation(choice) as held:
        ended = held.hold(errand.propose)
        calls = [json.loads(line) for line in held.transcript.read_text(encoding="utf-8").splitlines()]
    found = errand.proposal
    if found is None:
        fail(f"no sweep was proposed: {ended.trouble}", 130 if ended.interrupted else 1)
    typer.echo(f"expected: {found.hypothesis}\nwould change its mind: {found.change_mind}")
    for caution in found.cautions:
        typer.echo(f"consider: {caution}", err=True)
    return _Asked(found.spec, blueprint, found.plan, {**found.as_json(), "calls": calls})


def _show(asked: _Asked, as_json: bool) -> None:
    """Print the plan, after everything that could be refused has been looked at."""
    from harness.cli.show_sweep import plan_json, print_plan
    from harness.earlier_runs import estimate
    from harness.sweep.create import rehearse
    from harness.sweep.design import forecast
    from harness.sweep.points import config_text

    warnings = rehearse(asked.plan, asked.blueprint)
    takes = estimate(asked.blueprint, config_text(asked.blueprint))
    seen = forecast(asked.plan, takes, asked.blueprint.max_time_s)
    if as_json:
        print_json({**plan_json(asked.plan, seen), "warnings": list(warnings)})
        return
    print_plan(asked.plan, seen)
    for warning in warnings:
        typer.echo(f"consider: {warning}", err=True)


def _start(asked: _Asked, is_detached: bool, yes: bool, addresses: Sequence[str]) -> None:
    """Make the sweep and run it; what a model proposed only after a person agreed."""
    from harness import notifications
    from harness.cli.run import let_go
    from harness.cli.sweep_foreground import run_here
    from harness.sweep.create import make

    if asked.proposal is not None and not yes:
        if not sys.stdin.isatty():
            fail("a model proposed this sweep: look at it, and start it with --yes")
        if not typer.confirm("Start this sweep?"):
            raise typer.Exit(0)
    if asked.plan.metric and asked.plan.goal is None and sys.stdin.isatty():
        is_max = typer.confirm(f"Is a higher {asked.plan.metric} better?")
        asked = replace(asked, plan=replace(asked.plan, goal="max" if is_max else "min"))
    try:
        sweep = make(asked.spec, asked.plan, asked.blueprint, asked.proposal)
    except OSError as error:
        fail(f"the sweep cannot be written: {error}")
    typer.echo(f"results: {sweep.dir}")
    notifications.keep(sweep.state.sweep_id, addresses)
    if is_detached:
        let_go(sweep, sweep.state.sweep_id)
    else:
        run_here(sweep)
