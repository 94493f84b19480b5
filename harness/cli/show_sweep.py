"""A sweep in words and as JSON: its plan before it runs, and where it stands (`harness show`).

The sentences are those of `plan.txt.j2` and `status.txt.j2`: one fact a line, its name, a bar, what is said.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from harness import journal
from harness.cli import tree
from harness.cli.console import console, facts, print_facts, print_json, print_table
from harness.codec import encode
from harness.config import as_text, same_value
from harness.environment import known_secrets
from harness.index import JOURNAL
from harness.results.text import clean_tree, one_line
from harness.sweep.design import Forecast
from harness.sweep.state import SweepState, load_state
from harness.sweep.status import SweepStatus
from harness.wording import short_duration, short_labels

if TYPE_CHECKING:
    from harness.sweep.plan import SweepPlan

REPORT = "sweep_report.html"


def print_plan(plan: SweepPlan, seen: Forecast) -> None:
    """Print points, runs, time and power."""
    from harness.sweep.hosts.leases import Capacity

    out = console()
    out.print(plan.name, style="bold")
    if plan.question:
        out.print(plan.question, soft_wrap=False)
    _print_points(plan)
    said = facts(
        "sweeps/plan.txt.j2",
        plan=plan,
        seen=seen,
        needs=Capacity.here().shared(plan.needs),
        seeds=list(dict.fromkeys(run.seed for run in plan.runs)),
        canary_labels=short_labels(plan.canary),
        key_labels=short_labels(key.name for key in plan.keys),
        text=as_text,
        same=same_value,
        duration=short_duration,
    )
    print_table([("", ""), *said])


def plan_json(plan: SweepPlan, seen: Forecast) -> dict[str, Any]:
    """The plan with its forecast, for `--json`."""
    found = asdict(seen) | {"fits_budget": seen.fits_budget}
    return {"plan": encode(plan), "points": len(plan.points), **found}


def show_sweep(folder: Path, json_output: bool) -> None:
    """Print one sweep for people, or everything about it as JSON."""
    row = tree.sweep_row(folder, with_runs=json_output)
    if "error" in row:
        print_json(row) if json_output else typer.echo(f"{row['name']}  damaged\n{row['error']}")
        return
    state = load_state(folder)
    now, known = tree.status_of(folder, state), known_secrets(folder)
    if json_output:
        print_json(clean_tree({**row, **_status_json(state, now)}, known))
        return
    print_facts(
        *(one_line(row["name"]), row["state"], "sweeps/status.txt.j2"),
        now=now,
        state=state,
        folder=folder,
        failed=[run for run in now.compared if run.stage == "failed"],
        running=next((folder / run.name for run in state.holding_slots), None),
        is_owned=journal.is_owned(folder / JOURNAL),
        report=folder / REPORT if (folder / REPORT).exists() else None,
        line=partial(one_line, known=known),
    )


def _status_json(state: SweepState, now: SweepStatus) -> dict[str, Any]:
    end = state.verdict
    return {
        "question": now.plan.question,
        "metric": state.metric,
        "points": [
            {"name": point.name, "label": point.label, "mean_so_far": point.mean, "n": len(point.values)}
            for point in now.points
        ],
        "best_so_far": now.best.name if now.best is not None else None,
        "left_s": now.left_s,
        "budget_left_s": now.budget_left_s,
        "closing": state.closing,
        "verdict": {"outcome": end.outcome.value, "reason": end.reason} if end is not None else None,
    }


def _print_points(plan: SweepPlan) -> None:
    """One line per point; where one key differs at a time, only that one is shown."""
    from rich.text import Text

    base, rows = plan.points[0].levels, []
    for point in plan.points:
        hides = plan.design == "one-at-a-time" and not point.is_baseline
        levels = [(point.levels[key.name], base[key.name]) for key in plan.keys]
        cells = ["·" if hides and same_value(level, own) else as_text(level) for level, own in levels]
        row = (point.name.partition("-")[0], *cells, "baseline" if point.is_baseline else "")
        rows.append([Text(cell, style="bold" if point.is_baseline else "") for cell in row])
    print_table(rows, ("point", *short_labels(key.name for key in plan.keys).values(), ""))
    if plan.design == "one-at-a-time":
        console().print("· as in the baseline")
