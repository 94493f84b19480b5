"""`harness compare`: what can honestly be said about several runs, in a table or as a report of its own."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from harness import index
from harness.cli.console import console, fail, print_json, print_table

if TYPE_CHECKING:
    from harness.results.comparing.types import Asked, Comparison, Goal


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
            metavar="NAME",
            help="The metric to compare, such as val/task_pass_rate@1; default: the sweep's, else one is "
            "chosen and named.",
        ),
    ] = "",
    goal: Annotated[
        str | None,
        typer.Option(
            metavar="max|min",
            help="Which values are better; default: what the sweep, the plan or the metric's name says.",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Find the first step that reaches this value; default: the mean of the baseline."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write sweep_report.html, points.csv and the other files here."),
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Compare runs: means over seeds, differences, statistical tests.

    Runs that differ in nothing but the seed are one point; runs that differ in several settings at a time are
    refused. Exit status: 0 compared, 1 a difference may have another cause than the key, 2 nothing compared.
    """
    if goal not in (None, "max", "min"):
        fail(f"--goal must be max or min, not {goal!r}")
    from harness.results.comparing.types import Asked
    from harness.results.sweeps.tables import to_json

    asked = Asked(metric, cast("Goal | None", goal), threshold)
    comparison = _compared([index.find(word) for word in runs], asked)
    report = _write(comparison, out) if out is not None else None
    if json_output:
        print_json(to_json(comparison))
    else:
        _show(comparison)
        if report is not None:
            typer.echo(f"report: {report}")
    is_tested = any(one.p is not None for one in comparison.contrasts)
    if not any(point.value is not None for point in comparison.points):
        raise typer.Exit(2)
    if comparison.not_attributable:
        raise typer.Exit(1 if is_tested else 2)


def _compared(folders: list[Path], asked: "Asked") -> "Comparison":
    """A whole sweep as its own report compares it; any other runs by what their folders tell."""
    from harness.results.compare import compare_folders
    from harness.sweep import reporting
    from harness.sweep.plan import SweepFolder
    from harness.sweep.state import load_state

    sweep = index.whole_sweep(folders)
    state = load_state(sweep) if sweep is not None else None
    if sweep is not None and state is not None and state.plan.runs:
        return reporting.comparison(SweepFolder(sweep), state, asked)
    return compare_folders(folders, reporting.planned, asked)


def _write(comparison: "Comparison", out: Path) -> Path:
    from harness.results.sweeps.report import build_sweep_report

    try:
        return build_sweep_report(out.expanduser(), comparison).html
    except OSError as error:
        fail(f"{out}: the report could not be written: {error.strerror or error}")


_LEVELS = {"level": "level", "against": "baseline", "difference": "difference", "95 % interval": "interval"}
_POINTS = {"point": "short", "differs in": "label", "seeds": "seeds", "mean": "mean"}


def _show(comparison: "Comparison") -> None:
    from harness.environment import known_secrets
    from harness.results.sweeps.tables import build_page
    from harness.results.text import clean_tree

    view = build_page(clean_tree(comparison, known_secrets(*comparison.study.remembering)), Path.cwd())
    out = partial(console().print, markup=False, soft_wrap=False)
    out(view["verdict"], style="bold")
    for line in view["found"]:
        out(f"  {line}")
    metric = f"{view['metric']}, {view['better']}; " if view["metric"] else ""
    out(f"\n{metric}{view['counts']}\n")
    levels = [
        ("" if number else key["label"], *(row[name] for name in _LEVELS.values()), row["finding"])
        for key in view["varied"]
        for number, row in enumerate(key["rows"])
    ]
    if levels:
        print_table(levels, ("key", *_LEVELS, "finding"))
        out()
    points = [
        (*(row[name] for name in _POINTS.values()), row["interval"], ", ".join(row["marks"]))
        for row in view["points"]
    ]
    print_table(points, (*_POINTS, "95 % interval", ""))
    for caution in view["cautions"]:
        out(f"\n{caution.title}", style="bold yellow")
        for line in caution.lines:
            out(f"  {line}")
