"""`harness show` of a sweep: where it stands, what failed, the best so far, where the report is, what to type
next."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from harness import journal
from harness.cli import tree
from harness.cli.console import console
from harness.result_folders import JOURNAL
from harness.sweep.state import SweepState
from harness.sweep.status import SweepStatus, one_line
from harness.sweep.sweep import load_state
from harness.wording import short_duration as duration

MOST_FAILED = 10
REPORT = "sweep_report.html"


def show_sweep(folder: Path, json_output: bool) -> None:
    """Print one sweep for people, or everything about it as JSON."""
    row = tree.sweep_row(folder, with_runs=json_output)
    if "error" in row:
        typer.echo(json.dumps(row, indent=2) if json_output else f"{row['name']}  damaged\n{row['error']}")
        return
    state = load_state(folder)
    now = tree.status_of(folder, state)
    if json_output:
        typer.echo(json.dumps({**row, **_more(state, now)}, indent=2))
        return
    from rich.text import Text

    out = console()
    out.print(Text.assemble((one_line(row["name"]), "bold"), f"  {row['state']}"))
    for name, words in _facts(folder, state, now):
        out.print(f"{name:<9} {words}", markup=False)


def _more(state: SweepState, now: SweepStatus) -> dict[str, Any]:
    """What `show --json` says beside the row of `ls --json`."""
    end = state.verdict
    return {
        "question": state.plan.question if state.plan is not None else "",
        "metric": now.metric,
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


def _facts(folder: Path, state: SweepState, now: SweepStatus) -> Iterator[tuple[str, str]]:
    is_owned, end = journal.is_owned(folder / JOURNAL), state.verdict
    yield "folder", str(folder)
    if state.plan is not None and state.plan.question:
        yield "question", one_line(state.plan.question)
    yield "runs", now.tally
    if now.canary is not None:
        yield "canary", now.canary.cell
    left = f", about {duration(now.left_s)} left with {now.parallel} at once"
    budget = f", budget {duration(now.budget_s)}" if now.budget_s is not None else ""
    yield "time", duration(now.elapsed_s) + (left if is_owned and now.left_s is not None else "") + budget
    if now.best is not None:
        yield "best", now.best_so_far + ("" if end is not None else "  (so far)")
    failed = [run for run in now.runs if run.stage == "failed"]
    for run in failed[:MOST_FAILED]:
        yield "failed", f"{one_line(run.name)}: {run.outcome}: {one_line(run.run.reason)}"
    if len(failed) > MOST_FAILED:
        yield "", f"… {len(failed) - MOST_FAILED} more: harness ls --tree"
    if state.closing:
        yield "closing", f"no run is started any more: {one_line(state.closing)}"
    if end is not None:
        yield "outcome", f"{end.outcome.value}: {one_line(end.reason)}"
    for line in state.reported.headline if state.reported else ():
        yield "", one_line(line)
    has_report = (folder / REPORT).exists()
    if has_report:
        yield "report", str(folder / REPORT)
    if end is not None:
        is_whole = has_report and not (state.reported and state.reported.error)
        yield "next", f"harness {'verify' if is_whole else 'report'} {folder}"
    else:
        follow = [f"harness logs -f {folder / run.run.name}, " for run in state.of("running")[:1]]
        yield "next", f"{''.join(follow)}harness stop {folder}" if is_owned else f"harness resume {folder}"
