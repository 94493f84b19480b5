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
from harness.cli.console import console, duration
from harness.cli.sweep_words import best_so_far, cell, one_line, outcome, tally
from harness.result_folders import JOURNAL
from harness.sweep.state import SweepState
from harness.sweep.status import SweepStanding
from harness.sweep.sweep import load_state

MOST_FAILED = 10
REPORT = "sweep_report.html"


def show_sweep(folder: Path, json_output: bool) -> None:
    """Print one sweep for people, or everything about it as JSON."""
    row = tree.sweep_row(folder, with_runs=json_output)
    if "error" in row:
        typer.echo(json.dumps(row, indent=2) if json_output else f"{row['name']}  damaged\n{row['error']}")
        return
    state = load_state(folder)
    now = tree.stands(folder, state)
    if json_output:
        typer.echo(json.dumps({**row, **_more(state, now)}, indent=2))
        return
    from rich.text import Text

    out = console()
    out.print(Text.assemble((one_line(row["name"]), "bold"), f"  {row['state']}"))
    for name, words in _facts(folder, state, now):
        out.print(f"{name:<9} {words}", markup=False)


def _more(state: SweepState, now: SweepStanding) -> dict[str, Any]:
    """What `show --json` says beside the row of `ls --json`."""
    points = [
        {"name": point.name, "label": point.label, "mean_so_far": point.mean, "n": point.n}
        for point in now.points
    ]
    verdict = None
    if state.verdict is not None:
        verdict = {"outcome": state.verdict.outcome.value, "reason": state.verdict.reason}
    return {
        "question": state.plan.question if state.plan is not None else "",
        "metric": now.metric,
        "points": points,
        "best_so_far": now.best.name if now.best is not None else None,
        "left_s": now.left_s,
        "budget_left_s": now.budget_left_s,
        "closing": state.closing,
        "verdict": verdict,
    }


def _facts(folder: Path, state: SweepState, now: SweepStanding) -> Iterator[tuple[str, str]]:
    yield "folder", str(folder)
    if state.plan is not None and state.plan.question:
        yield "question", one_line(state.plan.question)
    yield "runs", tally(now)
    if now.canary is not None:
        yield "canary", cell(now.canary)
    yield "time", _time(now, is_led=journal.is_owned(folder / JOURNAL))
    if now.best is not None:
        yield "best", best_so_far(now) + ("" if state.verdict is not None else "  (so far)")
    failed = [run for run in now.runs if run.standing == "failed"]
    for run in failed[:MOST_FAILED]:
        yield "failed", f"{one_line(run.run.run.name)}: {outcome(run)}: {one_line(run.run.reason)}"
    if len(failed) > MOST_FAILED:
        yield "", f"… {len(failed) - MOST_FAILED} more: harness ls --tree"
    if state.closing:
        yield "closing", f"no run is started any more: {one_line(state.closing)}"
    yield from _end(folder, state)
    yield "next", _next(folder, state)


def _time(now: SweepStanding, is_led: bool) -> str:
    words = [duration(now.elapsed_s)]
    if is_led and now.left_s is not None:
        words.append(f"about {duration(now.left_s)} left with {now.parallel} at once")
    if now.budget_s is not None:
        words.append(f"budget {duration(now.budget_s)}")
    return ", ".join(words)


def _end(folder: Path, state: SweepState) -> Iterator[tuple[str, str]]:
    if state.verdict is not None:
        yield "outcome", f"{state.verdict.outcome.value}: {one_line(state.verdict.reason)}"
    for line in state.reported.headline if state.reported else ():
        yield "", one_line(line)
    if (folder / REPORT).exists():
        yield "report", str(folder / REPORT)


def _next(folder: Path, state: SweepState) -> str:
    """What one would type now."""
    if state.verdict is not None:
        has_report = (folder / REPORT).exists() and not (state.reported and state.reported.error)
        return f"harness verify {folder}" if has_report else f"harness report {folder}"
    if not journal.is_owned(folder / JOURNAL):
        return f"harness resume {folder}"
    running = state.of("running")
    follow = f"harness logs -f {folder / running[0].run.name}, " if running else ""
    return f"{follow}harness stop {folder}"
