"""finish.flag and the journal of a run: each checked by itself, then one against the other.

In: a result folder. Out: what differs. The journal carries a checksum per entry and is fingerprinted by the
flag; the flag follows from the journal and the files, so every word of it can be told again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from harness import blueprint, journal
from harness.results.types import Discrepancy
from harness.results.verifying import schema
from harness.results.verifying.files import differing
from harness.results.verifying.schema import ListedFile, UnreadableError
from harness.results.verifying.types import Checked, found
from harness.state import ExperimentState, Verdict, fold

FLAG = "finish.flag"
JOURNAL = "journal.jsonl"
_SINCE = "the run ended"
_ISSUED = (
    *("purpose", "launch_command", "max_time_s", "first_step_s", "notes", "metrics", "protected_keys"),
    *("code_changes", "prepare_command", "cleanup_command"),
)
"""What a blueprint says whatever folder it lies in."""


def flag_of(state: ExperimentState) -> dict[str, Any]:
    """What finish.flag says of a run that has ended, its manifest left out."""
    assert state.verdict is not None
    return {
        "outcome": state.verdict.outcome.value,
        "reason": state.verdict.reason,
        "exit_code": state.verdict.outcome.exit_code,
        "experiment_id": state.experiment_id,
        "name": state.name,
        "created_at": state.created_at,
        "finished_at": state.finished_at,
        "attempts": len(state.attempts),
        "headline": list(state.reported.headline) if state.reported else [],
    }


def check_ending(result_dir: Path) -> tuple[Checked, Sequence[ListedFile]]:
    """What finish.flag and the journal say, checked; and the files that the flag vouches for. Raises
    FileNotFoundError when there is no flag."""
    flag, listed, wrong = read_flag(result_dir, JOURNAL)
    state = story(result_dir / JOURNAL, fold, wrong)
    if state is not None:
        wrong += compared(flag, flag_of(state)) if flag is not None else ()
        wrong += _not_as_issued(result_dir / "blueprint.md", state.plan)
    return Checked(tuple(wrong), files=len(listed) + 1), listed


def read_flag(
    folder: Path, journal_name: str
) -> tuple[Mapping[str, Any] | None, Sequence[ListedFile], list[Discrepancy]]:
    """A finish.flag (None where it cannot be used), the files that it vouches for, and what differs between
    it and them. Raises FileNotFoundError when there is none."""
    listed: Sequence[ListedFile] = ()
    wrong: list[Discrepancy] = []
    flag: Mapping[str, Any] | None = None
    try:
        text, flag = schema.read_object(folder / FLAG)
        if text != json.dumps(flag, indent=2, ensure_ascii=False) + "\n":
            wrong += found([(FLAG, "it is not written as the harness writes it")])
        listed = schema.listed_files(flag.get("manifest"))
    except UnreadableError as error:
        wrong += found([(FLAG, str(error))])
    wrong += differing(folder, listed, _SINCE)
    if flag is not None and journal_name not in {item.path for item in listed}:
        wrong += found([(FLAG, "it does not vouch for the journal")])
    return flag, listed, wrong


class _Ended(Protocol):
    @property
    def verdict(self) -> Verdict | None: ...


State = TypeVar("State", bound=_Ended)


def story(
    path: Path,
    fold: Callable[[Sequence[journal.Entry]], State],
    wrong: list[Discrepancy],
    order: journal.Order = journal.RUN,
) -> State | None:
    """What a finished journal tells, None where it tells nothing; what is wrong with it is added to
    `wrong`."""
    entries = _entries(path, wrong, order)
    if not entries:
        return None
    try:
        state = fold(entries)
    except (LookupError, TypeError, ValueError, AttributeError, AssertionError, RecursionError) as error:
        wrong += found([(path.name, f"its entries tell no story: {type(error).__name__}: {error}")])
        return None
    if state.verdict is None:
        wrong += found([(path.name, "it tells of no end, and finish.flag is there")])
        return None
    if entries[-1].kind != "finish":
        wrong += found([(path.name, f"something follows the end: {entries[-1].kind}")])
    return state


def compared(flag: Mapping[str, Any], told: Mapping[str, Any]) -> tuple[Discrepancy, ...]:
    """Where a flag differs from what the journal gives for it; the manifest is left out."""
    said = {name: value for name, value in flag.items() if name != "manifest"}
    return found(
        (f"{FLAG}, {name[:80]}", f"it says {_short(said.get(name))}, the journal {_short(told.get(name))}")
        for name in dict.fromkeys((*told, *said))
        if said.get(name) != told.get(name) or type(said.get(name)) is not type(told.get(name))
    )


def _entries(path: Path, wrong: list[Discrepancy], order: journal.Order) -> list[journal.Entry]:
    try:
        if path.is_symlink() or not path.is_file():
            wrong += found([(path.name, "the file is gone")])
            return []
        entries = journal.read(path, order)
        is_torn = sum(len(entry.to_line()) for entry in entries) != path.stat().st_size
    except (journal.JournalDamagedError, OSError, ValueError, TypeError, RecursionError) as error:
        wrong += found([(path.name, str(error).replace(f"{path}:", "line "))])
        return []
    if is_torn:
        wrong += found([(path.name, "its last entry is torn, or was written in another way")])
    return entries


def _not_as_issued(path: Path, plan: Mapping[str, Any]) -> tuple[Discrepancy, ...]:
    """The sections of blueprint.md that do not say what the run was begun with."""
    if path.is_symlink() or not path.is_file():
        return ()  # the manifest tells
    there = blueprint.read(path, path.parent, {}).as_json()
    differ = [name for name in _ISSUED if name in plan and there[name] != plan[name]]
    return found([(path.name, f"not as it was issued: {', '.join(differ)}")] if differ else [])


def _short(value: Any) -> str:
    return repr(value)[:120]
