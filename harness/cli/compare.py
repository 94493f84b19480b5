"""`harness compare`: what can honestly be said about several runs, in a table or as a report of its own."""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from harness.cli.console import console, fail, find_any

if TYPE_CHECKING:
    from rich.table import Table

    from harness.results.comparing.types import Comparison, Goal


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Folders, names or ids of runs or sweeps; the first one is the baseline.", metavar="RUN..."
        ),
    ],
    metric: Annotated[
        str,
        typer.Option(
            help="What to compare by, such as val/task_pass_rate@1; default: as the sweep says, else chosen. "
            "Marked where no sweep had planned it."
        ),
    ] = "",
    goal: Annotated[
        str | None,
        typer.Option(help="Which values are better: max or min; default: as the sweep says, else max."),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Value whose first step is looked for; default: the mean of the baseline."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for sweep_report.html, points.csv and the other files.")
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Compare runs over their seeds: means, differences, and whether these could be chance.

    Runs that differ in nothing but the seed are one point; runs that differ in several settings at a time are
    refused. Ends with 2 when nothing can be compared.
    """
    if goal not in (None, "max", "min"):
        fail(f"--goal must be max or min, not {goal!r}")
    folders = [find_any(word) for word in runs]
    from harness.results.sweeps.tables import to_json

    comparison = _compared(folders, metric, cast("Goal | None", goal), threshold)
    report = _write(comparison, out) if out is not None else None
    if json_output:
        typer.echo(json.dumps(to_json(comparison), indent=2, ensure_ascii=False))
    else:
        _show(comparison)
        if report is not None:
            typer.echo(f"report: {report}")
    if not any(point.value is not None for point in comparison.points):
        raise typer.Exit(2)


def _compared(folders: list[Path], metric: str, goal: "Goal | None", threshold: float | None) -> "Comparison":
    """A whole sweep as its own report compares it; any other runs by what their folders tell."""
    from harness.index import whole_sweep
    from harness.results.compare import comparable, compare_folders, with_metric_judged
    from harness.sweep import reporting
    from harness.sweep.folder import SweepFolder
    from harness.sweep.sweep import load_state

    sweep = whole_sweep(folders)
    state = load_state(sweep) if sweep is not None else None
    if sweep is not None and state is not None and state.plan is not None:
        found = reporting.comparison(SweepFolder(sweep), state, metric, goal, threshold)
        return with_metric_judged(comparable(found), state.plan.metric)
    return compare_folders(folders, reporting.planned, metric, goal, threshold)


def _write(comparison: "Comparison", out: Path) -> Path:
    from harness.results.sweeps.report import build_sweep_report
    from harness.results.sweeps.tables import SweepAbout

    try:
        return build_sweep_report(out.expanduser(), comparison, SweepAbout()).html
    except OSError as error:
        fail(f"{out}: the report could not be written: {error.strerror or error}")


# --- the table ----------------------------------------------------------------------------------------------

_POINTS = {
    "point": "short",
    "differs in": "label",
    "seeds": "seeds",
    "mean": "mean",
    "95 % interval": "interval",
}
_KEYS = ("level", "baseline", "difference", "interval", "finding")


def _show(comparison: "Comparison") -> None:
    from harness.redaction import secret_values
    from harness.results.sweeps.tables import SweepAbout, build_page
    from harness.results.text import clean_tree

    comparison = clean_tree(comparison, secret_values(os.environ))
    view = build_page(comparison, SweepAbout(), Path.cwd())
    out = console()
    out.print(view["verdict"], style="bold", markup=False)
    for line in view["found"]:
        out.print(f"  {line}", markup=False, soft_wrap=False)
    out.print(f"\n{view['metric']}, {view['better']}; {view['counts']}\n", markup=False, soft_wrap=False)
    levels = [
        (key["label"] if not number else "", *(row[name] for name in _KEYS))
        for key in view["varied"]
        for number, row in enumerate(key["rows"])
    ]
    if levels:
        out.print(_table(("key", "level", "against", "difference", "95 % interval", "finding"), levels))
        out.print()
    points = [(*(row[name] for name in _POINTS.values()), ", ".join(row["marks"])) for row in view["points"]]
    out.print(_table((*_POINTS, ""), points))
    for caution in view["cautions"]:
        out.print(f"\n{caution.title}", style="bold yellow", markup=False)
        for line in caution.lines:
            out.print(f"  {line}", markup=False, soft_wrap=False)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        is_number = column in ("mean", "difference", "95 % interval")
        table.add_column(column, no_wrap=is_number, overflow="fold", justify="right" if is_number else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    return table
