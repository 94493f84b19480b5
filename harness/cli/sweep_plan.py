"""The plan of a sweep as people read it before anything runs, and as JSON.

In: a `SweepPlan` and its `Forecast`. Out: text on the console; nothing is
changed.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from harness.cli.console import console, duration
from harness.config import as_text, same_value
from harness.sweep.forecast import Forecast
from harness.wording import short_labels

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from harness.sweep.plan import SweepPlan

_DESIGNS = {"grid": "all combinations", "one-at-a-time": "one at a time", "random": "drawn from the grid"}


def print_plan(plan: "SweepPlan", seen: Forecast, out: "Console | None" = None) -> None:
    """Print points, runs, time and power."""
    from rich.table import Table
    from rich.text import Text

    out = out or console()
    out.print(Text(plan.name, style="bold"))
    if plan.question:
        out.print(Text(plan.question), soft_wrap=False)
    out.print(_points(plan), soft_wrap=False)
    if plan.design == "one-at-a-time":
        out.print("· as in the baseline")
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(no_wrap=True)
    facts.add_column(overflow="fold")
    for name, text in _facts(plan, seen):
        facts.add_row(Text(name), Text(text))
    out.print(facts, soft_wrap=False)


def as_json(plan: "SweepPlan", seen: Forecast) -> dict[str, Any]:
    """The plan with its forecast, for `--json`."""
    return {
        "plan": plan.as_json(),
        "points": len(plan.points),
        "runs": seen.runs,
        "expected_run_s": seen.run_s,
        "expected_s": seen.all_s,
        "most_run_s": seen.most_run_s,
        "most_s": seen.most_all_s,
        "runs_within_budget": seen.within_budget,
        "fits_budget": seen.fits_budget,
        "power": {
            "seeds": seen.seeds,
            "two_points_sd": seen.two_points,
            "two_levels_sd": seen.two_levels,
        },
    }


def _points(plan: "SweepPlan") -> "Table":
    """One line per point; where one key differs at a time, only that one is shown."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("point", no_wrap=True)
    short = short_labels(key.name for key in plan.keys)
    for key in plan.keys:
        table.add_column(Text(short[key.name]), overflow="fold", min_width=4)
    table.add_column("")
    base = plan.points[0].levels
    for point in plan.points:
        hides = plan.design == "one-at-a-time" and not point.is_baseline
        levels = [(point.levels[key.name], base[key.name]) for key in plan.keys]
        cells = ["·" if hides and same_value(level, own) else as_text(level) for level, own in levels]
        style = "bold" if point.is_baseline else None
        mark = "baseline" if point.is_baseline else ""
        number = point.name.partition("-")[0]
        table.add_row(*(Text(cell) for cell in (number, *cells, mark)), style=style)
    return table


def _facts(plan: "SweepPlan", seen: Forecast) -> Iterator[tuple[str, str]]:
    """Everything else, as names and sentences."""
    yield "", ""
    for key in plan.keys:
        marks = (" (baseline)" if same_value(level, key.baseline) else "" for level in key.levels)
        levels = (f"{as_text(level)}{mark}" for level, mark in zip(key.levels, marks, strict=True))
        yield "varied", f"{key.name}: {', '.join(levels)}"
    for name, value in plan.settings.items():
        yield "set", f"{name} = {as_text(value)}, in all points"
    yield "runs", _runs(plan, seen)
    yield "each run", _each(plan)
    yield "canary", _canary(plan)
    yield from _times(plan, seen)
    better = "higher" if plan.goal == "max" else "lower"
    chosen = f"{plan.metric}, {better} is better"
    yield (
        "metric",
        chosen if plan.metric else "chosen afterwards, and marked so in the report (--metric names it)",
    )
    for item in plan.expectations:
        effect = "no effect" if item.effect == "none" else item.effect
        why = f" ({item.why})" if item.why else ""
        yield "expected", f"{item.key} = {as_text(item.level)}: {effect}{why}"
    yield "power", _power(plan, seen)


def _runs(plan: "SweepPlan", seen: Forecast) -> str:
    count = f"{len(plan.points)} points ({_DESIGNS[plan.design]})"
    if plan.seed_key:
        seeds = [run.seed for run in plan.runs if run.point == plan.points[0].name]
        shown = ", ".join(map(str, seeds)) if len(seeds) <= 10 else f"{seeds[0]} to {seeds[-1]}"
        count += f" x {seen.seeds} seed{'s' * (seen.seeds > 1)} ({shown}, as {plan.seed_key})"
    slots = "one after the other" if plan.parallel == 1 else f"{plan.parallel} at once"
    return f"{count} = {seen.runs} runs, {slots}"


def _each(plan: "SweepPlan") -> str:
    from harness.sweep.hosts.leases import Capacity

    needs = Capacity.here().shared(plan.needs)
    gpus = "no GPU" if needs.gpus == 0 else f"{needs.gpus} GPU{'s' * (needs.gpus > 1)}"
    gpus += " (shared)" if needs.share_gpus and needs.gpus else ""
    cpus = f"{needs.cpus:.3g} core{'s' * (needs.cpus != 1)}"
    parts = [gpus, cpus]
    if needs.memory_bytes:
        parts.append(f"{needs.memory_bytes / 1e9:.3g} GB of memory")
    if needs.ports:
        parts.append(f"a port of its own in {', '.join(needs.ports)}")
    return ", ".join(parts)


def _canary(plan: "SweepPlan") -> str:
    if not plan.canary:
        return "the first run: the others start when its first step is seen"
    return f"{_settings(plan.canary)}; the rest starts when this short run has succeeded"


def _settings(settings: Mapping[str, Any]) -> str:
    short = short_labels(settings)
    return ", ".join(f"{short[name]} = {as_text(value)}" for name, value in settings.items())


def _times(plan: "SweepPlan", seen: Forecast) -> Iterator[tuple[str, str]]:
    limit = f"at most {duration(seen.most_run_s)} a run, {duration(seen.most_all_s)} in all"
    if seen.run_s is None or seen.all_s is None:
        yield "time", f"unknown, {limit}"
    else:
        run = f"{duration(seen.run_s)} a run (earlier runs of this blueprint)"
        yield "time", f"about {run}, {duration(seen.all_s)} in all; {limit}"
    if plan.budget_s is None or seen.within_budget is None:
        yield "budget", "no limit (--budget sets one)"
        return
    told = "by what is expected" if seen.run_s is not None else "if every run takes all the time it may"
    if seen.fits_budget:
        yield "budget", f"{duration(plan.budget_s)}: enough, {told}"
    else:
        count = f"{seen.within_budget} of {seen.runs} runs"
        yield "budget", f"{duration(plan.budget_s)}: not enough; {count}, {told}; the last seeds are left out"


def _power(plan: "SweepPlan", seen: Forecast) -> str:
    if seen.two_points is None:
        more = "" if plan.seed_key else ", which needs --seed-key"
        return (
            f"one seed: nothing can be said about other seeds (--seeds 3 runs every point three times{more})"
        )
    words = f"two points must differ by {seen.two_points:.2f} standard deviations between seeds"
    short = short_labels(key.name for key in plan.keys)
    for name, ratio in seen.two_levels.items():
        words += f", two values of {short[name]} over all points by {ratio:.2f}"
    return f"{words}, to be found in 80 % of cases (before correction for several comparisons)"
