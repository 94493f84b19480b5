"""`harness metrics`: the metric rows in a log or a file of metrics, and what to do where there are none."""

import csv
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness import index
from harness.cli.console import AsJson, fail, piped_log, print_facts, print_json

if TYPE_CHECKING:
    from harness.blueprint.types import Blueprint
    from harness.metric_files.reading import ReadRows
    from monitors.metrics.names import Direction

WRITTEN = (".csv", ".parquet", ".png")


def metrics(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="A log, - for standard input, a file or folder of metrics (TensorBoard, CSV, …), or a run.",
        ),
    ],
    pattern: Annotated[
        list[str] | None,
        typer.Option("--pattern", metavar="EXPR", help="Try an expression of [exp_metrics] on a log."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the rows: .csv, .parquet or .png."),
    ] = None,
    json_output: AsJson = False,
) -> None:
    """Show the metrics found in a log or a file.

    Where there are none, an expression that would find some is proposed.

    Exit status: 0 rows were found, 1 there are none, 2 the source cannot be read.
    """
    if output is not None and output.suffix not in WRITTEN:
        fail(f"{output}: the name must end in {', '.join(WRITTEN)}")
    found, plan = _read(source, pattern or [])
    leading, goal = _leading(found, plan)
    if json_output:
        rows = [
            {"line": line, "step": row.step, "epoch": row.epoch, "values": row.values}
            | ({"split": row.split} if row.split else {})
            for line, row in found.rows
        ]
        print_json({"source": str(source), "rows": rows, "leading": leading, "goal": goal})
    else:
        _print(found, source, leading, goal)
    if output is not None and found.rows:
        _write(found, output, leading)
    raise typer.Exit(0 if found.rows else 1)


def _read(source: Path, expressions: list[str]) -> "tuple[ReadRows, Blueprint | None]":
    """The rows, and the plan of a run."""
    from harness.metric_files.reading import read_source
    from monitors.metrics import MetricPatterns, families

    if broken := families.broken():
        fail("; ".join(broken))
    try:
        patterns = MetricPatterns.compile(expressions) if expressions else None
    except re.error as error:
        fail(f"--pattern {error.pattern!r}: no regular expression: {error}")
    if source == Path("-"):
        with piped_log() as piped:
            return read_source(piped, patterns), None
    if not source.exists():
        try:
            source = index.find_run(str(source))
        except index.UnknownRunError as error:
            fail(f"{source}: there is no such file or folder; {error}")
    plan = index.load_state(source).blueprint if (source / "attempts").is_dir() else None
    if plan and plan.metrics and patterns is None:
        patterns = plan.metrics.of_lines()
    return read_source(source, patterns), plan


def _leading(found: "ReadRows", plan: "Blueprint | None") -> "tuple[str | None, Direction | None]":
    """The metric that leads, by a run's plan where there is one, and in which direction it gets better."""
    if plan is None:
        return found.leading()
    from harness.results.leading import leading_metric

    led = leading_metric(plan, (name for _, row in found.rows for name in row.named()))
    return (led.name, led.goal) if led else (None, None)


def _print(found: "ReadRows", source: Path, leading: str | None, goal: str | None) -> None:
    from harness.redaction import redact
    from harness.wording import number_text
    from monitors.metrics.axis import positions

    series: dict[str, list[float]] = {}
    for _, row in found.rows:
        for name, value in row.named().items():
            series.setdefault(name, []).append(value)
    shown = [
        {"name": name, "count": len(values), "first": number_text(values[0]), "last": number_text(values[-1])}
        for name, values in series.items()
    ]
    proposals = [replace(one, sample=redact(one.sample)) for one in found.proposals]
    axis, _ = positions(row for _, row in found.rows)
    more = {"axis": axis, "leading": leading, "goal": goal, "metrics": shown, "proposals": proposals}
    print_facts(str(source), "", "console/metrics.txt.j2", rows=found.rows, **more)


def _write(found: "ReadRows", output: Path, leading: str | None) -> None:
    rows = [row for _, row in found.rows]
    names = list(dict.fromkeys(name for row in rows for name in row.named()))
    table = [
        {"line": line, "step": row.step, "epoch": row.epoch} | {name: row.named().get(name) for name in names}
        for line, row in found.rows
    ]
    try:
        if output.suffix == ".csv":
            with output.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, ["line", "step", "epoch", *names])
                writer.writeheader()
                writer.writerows(table)
        elif output.suffix == ".parquet":
            _write_parquet(table, output)
        else:
            _draw(found, leading, names, output)
    except OSError as error:
        fail(f"{output}: cannot be written: {error.strerror or error}")
    typer.echo(f"written: {output}", err=True)


def _write_parquet(table: list[dict[str, Any]], output: Path) -> None:
    try:
        import pandas as pd

        pd.DataFrame(table).to_parquet(output)
    except ImportError:
        fail("a .parquet file needs pandas and pyarrow: pip install pandas pyarrow")


def _draw(found: "ReadRows", leading: str | None, names: list[str], output: Path) -> None:
    from matplotlib.figure import Figure

    from monitors.metrics.axis import positions

    rows = [row for _, row in found.rows]
    axis, places = positions(rows)
    name = leading or names[0]
    points = [
        (place, row.named()[name]) for place, row in zip(places, rows, strict=True) if name in row.named()
    ]
    figure = Figure(figsize=(7.0, 3.2), layout="constrained")
    panel = figure.subplots()
    panel.plot(*zip(*points, strict=True), marker="o" if len(points) <= 30 else "", markersize=3.5)
    panel.set(xlabel="row number" if axis == "row" else axis, ylabel=name)
    figure.savefig(output, dpi=150)
