"""`harness ls`, `show`, `logs`, `attach`, `replay`: looking at runs without touching them."""

import json
import os
import shutil
import sys
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness import index
from harness.cli.console import (
    AsJson,
    Run,
    RunOrSweep,
    console,
    fail,
    print_facts,
    print_json,
)
from harness.wording import short_duration as duration
from monitors.files import AttemptFiles
from monitors.tmux import Session

if TYPE_CHECKING:
    from harness.state import ExperimentState


def ls(
    json_output: AsJson = False,
    with_runs: Annotated[
        bool, typer.Option("--tree", help="Also list the runs of each sweep, below it.")
    ] = False,
    state: Annotated[
        str,
        typer.Option(
            metavar="STATE", help="Only these: running, unfinished, finished, or an outcome such as failed."
        ),
    ] = "",
    last: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only the newest N.")] = None,
) -> None:
    """List your runs and sweeps, newest last."""
    from harness.cli import tree
    from harness.cli.columns import fitted

    rows = tree.rows(with_runs, state, last)
    if json_output:
        print_json([tree.as_json(row) for row in rows])
    elif not rows:
        none = "no runs yet: start one with `harness run BLUEPRINT`"
        typer.echo(f"no run is {state} (`harness ls` lists all)" if state else none)
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        cells = [line for row in rows for line in tree.lines(row)]
        for line in fitted(cells, tree.TITLES, width, tree.OPTIONAL):
            typer.echo(line)


def show(run: RunOrSweep = None, json_output: AsJson = False) -> None:
    """Show a run or a sweep: state, attempts, headline numbers."""
    folder = index.find(run)
    if index.is_sweep(folder):
        from harness.cli.show_sweep import show_sweep

        show_sweep(folder, json_output)
    else:
        _show_run(folder, json_output)


def _show_run(folder: Path, json_output: bool) -> None:
    from harness import journal
    from harness.cli import tree
    from harness.cli.standing import standing
    from harness.environment import known_secrets
    from harness.results.text import clean_tree, one_line
    from harness.state import fold

    row, report, known = tree.run_row(folder), folder / "report.html", known_secrets(folder)
    entries = journal.read(folder / "journal.jsonl") if "error" not in row else []
    state = fold(entries) if entries else None
    now = journal.clock_of(entries)()
    attempts = _attempts(state) if state is not None else []
    if state is not None and "now" not in row:
        row["now"] = standing(folder, state.blueprint, state.attempt, entries, now)
    if json_output:
        print_json(clean_tree({**tree.as_json(row), "attempts": attempts}, known))
        return
    print_facts(
        *(row["name"], row["state"], "console/run.txt.j2"),
        folder=folder,
        row=row,
        state=state,
        attempts=attempts,
        limit_s=state.deadline_at - now if state is not None else None,
        report=report if report.exists() else None,
        duration=duration,
        line=partial(one_line, known=known),
    )
    if state is not None and (state.asks or state.questions):
        from harness.agent import approval

        if question := approval.open_question(entries):
            ways = "\n  ".join(question.commands(folder))
            typer.echo(f"waits for your answer: {question.text}\n  {ways}")


def logs(
    run: Run = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow the log until the attempt ends.")
    ] = False,
    lines: Annotated[
        int, typer.Option("--lines", "-n", metavar="N", help="How many lines from the end.")
    ] = 50,
    attempt: Annotated[
        int | None, typer.Option(metavar="N", help="Number of the attempt; default: the newest.")
    ] = None,
) -> None:
    """Print the log of the training."""
    from monitors.logs import LogReader

    folder = index.find_run(run)
    folders = sorted((folder / "attempts").glob("[0-9]*"))
    wanted = [item for item in folders if attempt is None or int(item.name) == attempt]
    if not wanted:
        fail(f"{folder} has no attempt {attempt if attempt is not None else 'yet'}")
    files = AttemptFiles(wanted[-1])
    reader = LogReader(files.pane_log)
    reader.skip_to_last(lines)
    while True:
        is_over = not follow or files.state() in ("ended", "lost")
        fresh = reader.read(final=is_over)
        for line in fresh:
            typer.echo(line.text)
        if is_over and not fresh:
            return
        if not fresh:
            time.sleep(0.3)


def attach(run: Run = None) -> None:
    """Attach this terminal to the tmux session of the training.

    Ctrl-b d detaches. Inside tmux, the client switches to that session, and Ctrl-b L switches back.
    """
    folder = index.find_run(run)
    attempt = index.load_state(folder).attempt
    session = Session.find_anywhere(attempt.session) if attempt is not None else None
    if session is None:
        fail(f"{folder} has no tmux session now; `harness logs {folder}` prints what it said")
    environment = dict(os.environ)
    argv = session.switch_argv(environment["TMUX"]) if environment.get("TMUX") else None
    if argv is None:
        environment.pop("TMUX", None)  # tmux refuses to attach inside tmux, also to another server
        argv = session.attach_argv()
    os.execvpe(argv[0], argv, environment)


def replay(
    run: Run = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON, one decision per line.")] = False,
) -> None:
    """Make every decision of a run again, offline, and compare.

    Decisions come from the journal and the model's recorded replies; nothing is launched, asked or written.
    Exit status: 0 every decision and prompt is the same, 1 something differs.
    """
    from harness.agent.replay import replay as decisions
    from harness.environment import known_secrets
    from harness.results.text import clean_tree

    out, folder = console(), index.find_run(run)
    known = known_secrets(folder)
    count = different = 0
    for decision in decisions(folder):
        count += 1
        different += bool(decision.differs)
        if json_output:
            typer.echo(json.dumps(clean_tree(asdict(decision), known), ensure_ascii=False))
            continue
        by = f"model, {decision.calls} calls" if decision.calls else "code"
        asked = f"{decision.action} (refused)" if decision.refused else decision.action
        verdict = "; ".join(decision.differs) or "the same"
        out.print(f"{decision.number:>5}  {by:<16} {asked:<28} {verdict}")
    if not json_output:
        out.print(f"{count} decisions, {different} of them not the same this time")
    raise typer.Exit(1 if different else 0)


def _attempts(state: "ExperimentState") -> list[dict[str, Any]]:
    from harness.attempt import AttemptEnd

    rows = []
    for attempt in state.attempts:
        ended = attempt.ended or AttemptEnd("not started")
        status = f", status {ended.status}" if ended.status is not None else ""
        end = "running" if attempt.is_running else f"{ended.in_words}{status}"
        rows.append({"number": attempt.number, "session": attempt.session, "why": attempt.why, "end": end})
    return rows
