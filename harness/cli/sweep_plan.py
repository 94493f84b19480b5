"""The plan of a sweep as people read it before anything runs, and as JSON.

In: a `SweepPlan` and its `Forecast`. Out: text on the console; the sentences are those of `plan.txt.j2`.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from harness.cli.console import console
from harness.config import as_text, same_value
from harness.sweep.forecast import Forecast
from harness.templating import render
from harness.wording import short_duration as duration
from harness.wording import short_labels

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from harness.sweep.plan import SweepPlan


def print_plan(plan: "SweepPlan", seen: Forecast, out: "Console | None" = None) -> None:
    """Print points, runs, time and power."""
    from rich.table import Table
    from rich.text import Text

    from harness.sweep.hosts.leases import Capacity

    out = out or console()
    out.print(Text(plan.name, style="bold"))
    if plan.question:
        out.print(Text(plan.question), soft_wrap=False)
    out.print(_points(plan), soft_wrap=False)
    if plan.design == "one-at-a-time":
        out.print("· as in the baseline")
    text = render(
        "sweeps/plan.txt.j2",
        plan=plan,
        seen=seen,
        seeds=[run.seed for run in plan.runs if run.point == plan.points[0].name],
        needs=Capacity.here().shared(plan.needs),
        key_labels=short_labels(key.name for key in plan.keys),
        canary_labels=short_labels(plan.canary),
        duration=duration,
        text=as_text,
        same=same_value,
    )
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(no_wrap=True)
    facts.add_column(overflow="fold")
    facts.add_row()
    for name, _, words in (line.partition("|") for line in text.split("\n") if line.strip()):
        facts.add_row(Text(name), Text(words))
    out.print(facts, soft_wrap=False)


def as_json(plan: "SweepPlan", seen: Forecast) -> dict[str, Any]:
    """The plan with its forecast, for `--json`."""
    found = asdict(seen) | {"fits_budget": seen.fits_budget}
    return {"plan": plan.as_json(), "points": len(plan.points), **found}


def _points(plan: "SweepPlan") -> "Table":
    """One line per point; where one key differs at a time, only that one is shown."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("point", no_wrap=True)
    for label in short_labels(key.name for key in plan.keys).values():
        table.add_column(Text(label), overflow="fold", min_width=4)
    table.add_column("")
    base = plan.points[0].levels
    for point in plan.points:
        hides = plan.design == "one-at-a-time" and not point.is_baseline
        levels = [(point.levels[key.name], base[key.name]) for key in plan.keys]
        cells = ["·" if hides and same_value(level, own) else as_text(level) for level, own in levels]
        row = (point.name.partition("-")[0], *cells, "baseline" if point.is_baseline else "")
        table.add_row(*map(Text, row), style="bold" if point.is_baseline else None)
    return table
