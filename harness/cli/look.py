"""`harness ls`, `show`, `logs`, `attach`: looking at runs without touching them."""

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.console import console, duration, fail, find_run

if TYPE_CHECKING:
    from harness.state import ExperimentState
    from monitors.files import AttemptFiles

WIDEST = 1000
Run = Annotated[
    str | None, typer.Argument(help="A result folder, a run's name or its id; default: the newest run.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def ls(json_output: AsJson = False) -> None:
    """List the runs of this user, newest last."""
    from harness import index

    rows = [_row(run.dir) for run in index.runs()]
    if json_output:
        typer.echo(json.dumps(rows, indent=2))
        return
    if not rows:
        typer.echo("no runs yet: start one with `harness run BLUEPRINT`")
        return
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("run", "id", "state", "attempt", "step", "started", "took"):
        table.add_column(name, no_wrap=True)
    table.add_column("folder", no_wrap=True)
    for row in rows:
        started = time.strftime("%Y-%m-%d %H:%M", time.localtime(row["created_at"]))
        step = "–" if row["step"] is None else str(row["step"])
        took = duration(row["elapsed_s"])
        cells = (
            row["name"],
            row["id"][:4],
            row["state"],
            str(row["attempts"]),
            step,
            started,
            took,
            row["result_dir"],
        )
        table.add_row(*cells)
    wide = console(width=WIDEST)
    wide.print(table, width=wide.measure(table).maximum)


def show(run: Run = None, json_output: AsJson = False) -> None:
    """Show one run: its state, its attempts, its headline numbers."""
    from harness import index, journal
    from harness.agent import approval
    from harness.cli.progress import model_use

    folder = find_run(run)
    row = _row(folder)
    state = index.load_state(folder) if "error" not in row else None
    if json_output:
        typer.echo(json.dumps({**row, "attempts": _attempts(state)}, indent=2))
        return
    out = console()
    out.print(f"[bold]{row['name']}[/bold]  {row['state']}", markup=True)
    out.print(f"folder    {folder}", markup=False)
    if state is None:
        out.print(row["error"], markup=False)
        return
    out.print(f"purpose   {state.plan.get('purpose', '')}", markup=False)
    out.print(
        f"time      {duration(row['elapsed_s'])} of {duration(state.plan.get('max_time_s'))}", markup=False
    )
    if state.llm.calls:
        out.print(f"model     {state.llm.model}  {model_use(state.llm)}", markup=False)
    question = approval.open_question(journal.read(folder / "journal.jsonl"))
    if question is not None and state.verdict is None:
        out.print(f"waits for {question.text}: harness approve {folder}", style="bold", markup=False)
    for attempt in _attempts(state):
        out.print(f"attempt   {attempt['number']:02d}  {attempt['session']}  {attempt['end']}", markup=False)
    if state.verdict is not None:
        out.print(f"outcome   {state.verdict.outcome.value}: {state.verdict.reason}", markup=False)
    for line in (state.reported or {}).get("headline", []):
        out.print(f"          {line}", markup=False)
    if (folder / "report.html").exists():
        out.print(f"report    {folder / 'report.html'}", markup=False)


def logs(
    run: Run = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the attempt ends.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", help="How many lines from the end.")] = 50,
    attempt: Annotated[int | None, typer.Option(help="Number of the attempt; default: the newest.")] = None,
) -> None:
    """Print the training's log."""
    files = _attempt_files(find_run(run), attempt)
    from monitors.logs import LogReader, tail

    if not follow:
        for line in tail(files.pane_log, lines):
            typer.echo(line.text)
        return
    reader = LogReader(files.pane_log)
    reader.skip_to_last(lines)
    fresh = reader.read()
    while True:
        for line in fresh:
            typer.echo(line.text)
        ended = files.state() in ("ended", "lost")
        fresh = reader.read()
        if ended and not fresh:
            return
        if not fresh:
            time.sleep(0.3)


def attach(run: Run = None) -> None:
    """Attach this terminal to the tmux session of the running attempt (detach with Ctrl-b d)."""
    from harness import index
    from monitors.tmux import Session

    folder = find_run(run)
    attempt = index.load_state(folder).attempt
    session = Session.find(attempt.session) if attempt is not None else None
    if session is None:
        fail(f"{folder} has no tmux session now; `harness logs {folder}` prints what it said")
    argv = session.attach_argv()
    os.execvp(argv[0], argv)


def _row(folder: Path) -> dict[str, Any]:
    """One line of `harness ls`; a journal that cannot be read is shown as damaged, not hidden."""
    from harness import index, journal

    try:
        state = index.load_state(folder)
    except journal.JournalDamagedError as error:
        return {
            "name": folder.name, "id": "", "state": "damaged", "attempts": 0, "step": None,
            "created_at": 0.0, "elapsed_s": None, "result_dir": str(folder), "error": str(error),
        }  # fmt: skip
    owned = journal.is_owned(folder / "journal.jsonl")
    return {
        "name": folder.name,
        "id": state.experiment_id,
        "state": _state_word(state, owned),
        "attempts": len(state.attempts),
        "step": _last_step(folder, state),
        "created_at": state.created_at,
        "elapsed_s": (state.finished_at or time.time()) - state.created_at,
        "result_dir": str(folder),
    }


def _state_word(state: "ExperimentState", owned: bool) -> str:
    if state.verdict is not None:
        return state.verdict.outcome.value
    return state.phase if owned else f"{state.phase} (unwatched: harness resume)"


def _last_step(folder: Path, state: "ExperimentState") -> int | None:
    """The newest step in the newest attempt's metrics."""
    from harness.results.raw import json_lines

    if state.attempt is None:
        return None
    path = folder / "attempts" / f"{state.attempt.number:02d}" / "metrics.jsonl"
    steps = [row.data["step"] for row in json_lines(path, path.name, []) if "step" in row.data]
    return steps[-1] if steps else None


def _attempts(state: "ExperimentState | None") -> list[dict[str, Any]]:
    rows = []
    for attempt in state.attempts if state is not None else ():
        ended = attempt.ended or {}
        end = (
            "running"
            if attempt.is_running
            else f"{ended.get('reason', 'not started')}, status {ended.get('status')}"
        )
        rows.append({"number": attempt.number, "session": attempt.session, "why": attempt.why, "end": end})
    return rows


def _attempt_files(folder: Path, number: int | None) -> "AttemptFiles":
    from monitors.files import AttemptFiles

    folders = sorted((folder / "attempts").glob("[0-9]*"))
    wanted = [item for item in folders if number is None or int(item.name) == number]
    if not wanted:
        fail(f"{folder} has no attempt {number if number is not None else 'yet'}")
    return AttemptFiles(wanted[-1])
