"""The rows of `harness ls`: runs of their own and sweeps, and with `--tree` the runs below their sweeps.

In: the index, and the journals that it leads to. Out: one mapping per row, as `--json` prints it. A sweep's
runs are known from the sweep's own journal and the ends of their metrics, so that hundreds of them are quick.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from harness import index, journal
from harness.index import JOURNAL
from harness.state import ExperimentState
from harness.sweep.folder import SweepFolder
from harness.sweep.run_files import last_step, progress
from harness.sweep.state import SweepState, load_state
from harness.sweep.status import WORDS, RunStatus, SweepStatus, number_text_of, one_line, status
from harness.wording import short_duration as duration

Row = dict[str, Any]
BRANCH, LAST_BRANCH = "├─ ", "└─ "


def rows(with_runs: bool) -> list[Row]:
    """A row per run of its own and per sweep, in the order in which they were created; `with_runs`: those of
    sweeps have all their runs under `runs`."""
    return [
        sweep_row(folder, with_runs) if kind == "sweep" else run_row(folder)
        for folder, kind in index.top_level().items()
    ]


def run_row(folder: Path) -> Row:
    """One run; a journal that cannot be read is shown as damaged, not hidden."""
    try:
        state = index.load_state(folder)
    except journal.JournalDamagedError as error:
        return {**_damaged(folder, "run", error), "attempts": 0, "step": None}
    owned = journal.is_owned(folder / "journal.jsonl")
    return {
        "kind": "run",
        "name": folder.name,
        "id": state.experiment_id,
        "state": _state_word(state, owned),
        "attempts": len(state.attempts),
        "step": last_step(folder),
        "created_at": state.created_at,
        "elapsed_s": (state.finished_at or time.time()) - state.created_at,
        "result_dir": str(folder),
    }


def _damaged(folder: Path, kind: index.Kind, error: Exception) -> Row:
    return {
        "kind": kind, "name": folder.name, "id": "", "state": "damaged", "created_at": 0.0,
        "elapsed_s": None, "result_dir": str(folder), "error": str(error),
    }  # fmt: skip


def _state_word(state: ExperimentState | SweepState, owned: bool) -> str:
    if state.verdict is not None:
        return state.verdict.outcome.value
    return state.phase if owned else f"{state.phase} (unwatched: harness resume)"


def sweep_row(folder: Path, with_runs: bool) -> Row:
    """One sweep, with the number of its runs in each state under `counts`."""
    try:
        state = load_state(folder)
    except journal.JournalDamagedError as error:
        return {**_damaged(folder, "sweep", error), "counts": {}, **({"runs": []} if with_runs else {})}
    now = status_of(folder, state)
    row: Row = {
        "kind": "sweep",
        "name": folder.name,
        "id": state.sweep_id,
        "state": _state_word(state, journal.is_owned(folder / JOURNAL)),
        "counts": {**dict.fromkeys(("queued", "running", "done", "failed", "cancelled"), 0), **now.counts},
        "created_at": state.created_at,
        "elapsed_s": now.elapsed_s,
        "result_dir": str(folder),
        "tally": now.tally,
    }
    if with_runs:
        row["runs"] = [_member(folder, member) for member in now.runs]
    return row


def status_of(folder: Path, state: SweepState) -> SweepStatus:
    """The sweep in this folder as it stands now, seen from outside its scheduler."""
    return status(state, time.time(), partial(progress, SweepFolder(folder)))


def _member(folder: Path, member: RunStatus) -> Row:
    """One run of a sweep."""
    run = member.run
    result_dir = folder / run.name
    return {
        "kind": "run",
        "name": run.name,
        "point": run.run.point,
        "seed": run.run.seed,
        "state": run.outcome or (WORDS["cancelled"] if run.status == "not_run" else run.status),
        "jobs": run.job,
        "step": member.progress.step if member.stage == "running" else last_step(result_dir),
        "total_steps": member.progress.total,
        "value": member.value,
        "created_at": run.started_at,
        "elapsed_s": member.took_s,
        "reason": run.reason,
        "result_dir": str(result_dir),
    }


TITLES = ("run", "id", "state", "attempt", "step", "value", "started", "took", "folder")


def lines(row: Row) -> Iterator[tuple[str, ...]]:
    """A row of the first level and the runs below it as a table shows them, under TITLES; the folders of
    those are in the sweep's and have their names."""
    yield _cells(row, "")
    members = row.get("runs", ())
    for place, member in enumerate(members, start=1):
        yield _cells(member, BRANCH if place < len(members) else LAST_BRANCH)


def _cells(row: Row, branch: str) -> tuple[str, ...]:
    state = row["state"].replace("_", " ") + (f": {row['tally']}" if "tally" in row else "")
    began = took = step = ""
    if row["created_at"] is not None:
        began = time.strftime("%Y-%m-%d %H:%M", time.localtime(row["created_at"]))
        took, step = duration(row["elapsed_s"]), _step(row)
    return (
        branch + one_line(row["name"]),
        *(row.get("id", "")[:4], state, str(row.get("attempts", row.get("jobs") or "")), step),
        number_text_of(row["value"]) if row.get("value") is not None else "",
        *(began, took, "" if branch else row["result_dir"]),
    )


def _step(row: Row) -> str:
    if row["kind"] == "sweep":
        return ""
    if row["step"] is None:
        return "–"
    return f"{row['step']} of {row['total_steps']}" if row.get("total_steps") else str(row["step"])
