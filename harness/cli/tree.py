"""The rows of `harness ls`: runs of their own and sweeps, and with `--tree` the runs below their sweeps.

In: the index, and the journals that it leads to. Out: one mapping per row, as `--json` prints it. A sweep's
runs are known from the sweep's own journal and the ends of their metrics, so that hundreds of them are quick.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import elsewhere, index, journal
from harness.cli.standing import place_at_end, standing
from harness.index import JOURNAL
from harness.journal.events import Finish
from harness.outcome import Outcome
from harness.results.manifest import plain
from harness.results.raw import json_file, number_in
from harness.results.text import one_line
from harness.state import ExperimentState, fold
from harness.sweep.plan import SweepFolder, newest_attempt
from harness.sweep.run_files import progress
from harness.wording import answer_text, metric_value_text
from harness.wording import short_duration as duration

if TYPE_CHECKING:
    from harness.sweep.state import SweepState
    from harness.sweep.status import RunStatus, SweepStatus

Row = dict[str, Any]
STATES = frozenset(outcome.value for outcome in Outcome)
BRANCH, LAST_BRANCH = "├─ ", "└─ "


def rows(with_runs: bool, state: str = "", last: int | None = None) -> list[Row]:
    """A row per run of its own and per sweep, in the order in which they were created; `with_runs`: those of
    sweeps have all their runs under `runs`. `state`: only these (see `is_in`); `last`: only so many of the
    newest."""
    every = (
        sweep_row(folder, with_runs) if kind == "sweep" else run_row(folder)
        for folder, kind in reversed(index.top_level().items())
    )
    wanted = (row for row in every if is_in(row, state))
    return list(islice(wanted, last))[::-1]


def is_in(row: Row, state: str) -> bool:
    """True if the row is in this state: an outcome, a phase, or `running`, `unfinished`, `finished`."""
    is_over = row["state"] in STATES
    groups = {"finished": is_over, "unfinished": not is_over, "running": not is_over and row["owned"]}
    word = state.replace(" ", "_").replace("-", "_")
    return groups.get(word, row["state"].replace(" ", "_").startswith(word))


def run_row(folder: Path) -> Row:
    """One run; a journal that cannot be read is shown as damaged, not hidden. `now` says where a run that is
    not over stands."""
    found = journal.first_and_last(folder / "journal.jsonl")
    if found and found[1]["kind"] == Finish.kind:
        return _finished_row(folder, *found)
    try:
        entries = journal.read(folder / "journal.jsonl")
    except journal.JournalDamagedError as error:
        return {**_damaged(folder, "run", error), "attempts": 0, "step": None}
    state, owned = fold(entries), journal.is_owned(folder / "journal.jsonl")
    silent = elsewhere.silence(folder, state.attempt, time.time())
    time_now = journal.clock_of(entries)()
    now = standing(folder, state.blueprint, state.attempt, entries, time_now)
    return {
        **_named("run", folder),
        "id": state.experiment_id,
        "state": _state_word(state, owned, silent),
        "changed_code": list(state.changed_files),
        "owned": owned,
        "attempts": len(state.attempts),
        **_place(folder),
        "metric": now.metric or None,
        "value": now.values[-1] if now.values else None,
        "created_at": state.created_at,
        "elapsed_s": state.took_s(time_now),
        "now": now,
        "to_answer": _to_answer(entries, folder) if state.asks or state.questions else [],
    }


def _to_answer(entries: Sequence[journal.Entry], folder: Path) -> list[str]:
    """What the run asks a person, as `SweepStatus.to_answer_in_short`."""
    from harness.agent import approval

    question = approval.open_question(entries)
    if question is None or approval.is_answered(folder, question):
        return []
    return [one_line(answer_text(question.commands(Path(nearest(folder))), question.text))]


def _finished_row(folder: Path, first: Row, last: Row) -> Row:
    """A run that is over, from the ends of its files alone: there may be hundreds."""
    flag = json_file(folder / "finish.flag", "finish.flag", []) or {}
    result = flag.get("result") or {}
    return {
        **_named("run", folder),
        "id": first["data"]["experiment_id"],
        "state": last["data"]["outcome"],
        "changed_code": flag.get("changed_code", []),
        "owned": False,
        "attempts": len(list((folder / "attempts").glob("[0-9]*"))),
        **_place(folder),
        "metric": result.get("metric"),
        "value": result.get("value"),
        "created_at": first["time"],
        "elapsed_s": last["time"] - first["time"] - (number_in(flag, "waited_s") or 0.0),
    }


def _place(folder: Path) -> Row:
    """Where the newest attempt of a run stands."""
    newest = newest_attempt(folder)
    step, position = place_at_end(newest / "metrics.jsonl") if newest is not None else (None, "")
    return {"step": step, "position": position}


def _named(kind: index.Kind, folder: Path) -> Row:
    return {"kind": kind, "name": folder.name, "result_dir": str(folder)}


def _damaged(folder: Path, kind: index.Kind, error: Exception) -> Row:
    unknown = {"id": "", "owned": False, "created_at": 0.0, "elapsed_s": None}
    return {**_named(kind, folder), "state": "damaged", **unknown, "error": str(error)}


def _state_word(state: ExperimentState | SweepState, owned: bool, silent: str = "") -> str:
    if state.verdict is not None:
        return state.verdict.outcome.value
    if silent:
        return f"{state.phase} ({silent}: harness resume)"
    return state.phase if owned else f"{state.phase} (unwatched: harness resume)"


def sweep_row(folder: Path, with_runs: bool) -> Row:
    """One sweep, with the number of its runs in each state under `counts`."""
    from harness.sweep.state import load_state
    from harness.sweep.status import GLYPHS

    try:
        state = load_state(folder)
    except journal.JournalDamagedError as error:
        return {**_damaged(folder, "sweep", error), "counts": {}, **({"runs": []} if with_runs else {})}
    now = status_of(folder, state)
    row: Row = {
        **_named("sweep", folder),
        "id": state.sweep_id,
        "state": _state_word(state, owned := journal.is_owned(folder / JOURNAL)),
        "owned": owned,
        "counts": {**dict.fromkeys(GLYPHS, 0), **now.counts},
        "created_at": state.created_at,
        "elapsed_s": now.elapsed_s,
        "tally": now.tally,
        "to_answer": now.to_answer_in_short(nearest(folder)),
    }
    if with_runs:
        row["runs"] = [_member(folder, member) for member in now.runs]
    return row


def status_of(folder: Path, state: SweepState) -> SweepStatus:
    """The sweep in this folder as it stands now, seen from outside its scheduler."""
    from harness.sweep.state import SWEEP
    from harness.sweep.status import status

    now = journal.clock_of(journal.read(folder / JOURNAL, SWEEP))()
    return status(state, now, partial(progress, SweepFolder(folder)))


def _member(folder: Path, member: RunStatus) -> Row:
    """One run of a sweep."""
    from harness.sweep.status import WORDS

    run = member.run
    result_dir = folder / run.name
    word = run.outcome or WORDS[member.stage]
    return {
        **_named("run", result_dir),
        "point": run.run.point,
        "seed": run.run.seed,
        "state": word,
        "jobs": run.job,
        **_place(result_dir),
        "total_steps": member.progress.total,
        "value": member.value,
        "created_at": run.started_at,
        "elapsed_s": member.took_s,
        "reason": run.reason,
    }


TITLES = ("run", "id", "state", "attempt", "step", "metric", "started", "took", "folder")
OPTIONAL = ("attempt", "started", "id")
"""Columns that a narrow terminal does without, the first of them first."""


def lines(row: Row) -> Iterator[tuple[str, ...]]:
    """A row of the first level and the runs below it as a table shows them, under TITLES; the folders of
    those are in the sweep's and have their names. A run that goes on has a line of one cell below it."""
    yield _cells(row, "")
    for line in row.get("to_answer", ()):
        yield (f"  {line}",)
    if "now" in row and row["now"].brief:
        yield (f"  {row['now'].brief}",)
    members = row.get("runs", ())
    for place, member in enumerate(members, start=1):
        yield _cells(member, BRANCH if place < len(members) else LAST_BRANCH)


def as_json(row: Row) -> Row:
    """The row as `--json` prints it."""
    return plain(row | {"now": row["now"].as_json()} if "now" in row else row)


def _cells(row: Row, branch: str) -> tuple[str, ...]:
    state = row["state"].replace("_", " ") + (f": {row['tally']}" if "tally" in row else "")
    state += ", changed code" if row.get("changed_code") and "changed code" not in state else ""
    began = took = step = value = ""
    if row["created_at"] is not None:
        began = time.strftime("%Y-%m-%d %H:%M", time.localtime(row["created_at"]))
        took, step = duration(row["elapsed_s"]), _step(row)
    if row.get("value") is not None:
        value = " ".join(filter(None, (metric_value_text(row["value"]), row.get("metric"))))
    return (
        branch + one_line(row["name"]),
        *(row.get("id", "")[:4], state, str(row.get("attempts", row.get("jobs") or "")), step),
        one_line(value),
        *(began, took, "" if branch else nearest(row["result_dir"])),
    )


def nearest(folder: str | Path) -> str:
    """The path as it is typed here: relative where that is shorter."""
    return min(str(folder), os.path.relpath(folder), key=len)


def _step(row: Row) -> str:
    if row["kind"] == "sweep":
        return ""
    if row["step"] is None:
        return row.get("position") or "–"
    return f"{row['step']} of {row['total_steps']}" if row.get("total_steps") else str(row["step"])
