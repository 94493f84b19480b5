"""Where this user's result folders are: `$XDG_STATE_HOME/harness/runs.jsonl`, one line per experiment and
one per sweep created.

The index only finds folders; what is true of an experiment or a sweep stands in its own journal. A folder
that was moved or deleted simply is not listed any more.
"""

import difflib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from harness import journal
from harness.errors import UserError
from harness.result_folders import is_sweep, sweep_of
from harness.state import ExperimentState, fold
from monitors.launch import state_home

Kind = Literal["run", "sweep"]
MOST_NAMED = 5  # runs that a message about a sweep names


class UnknownRunError(UserError):
    """No result folder answers to the name, id or path given."""


@dataclass(frozen=True)
class IndexedRun:
    """One line of the index; `experiment_id` of a sweep is its sweep id."""

    experiment_id: str
    name: str
    result_dir: str
    created_at: float
    kind: Kind = "run"

    @property
    def dir(self) -> Path:
        return Path(self.result_dir)


def add(run: IndexedRun) -> None:
    """Append one line; a single small write, so that concurrent runs do not mix theirs. A line that a full
    disk cut off stays alone."""
    path = state_home() / "runs.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        is_cut_off = file.read(1) not in (b"", b"\n")
        file.write(("\n" * is_cut_off + json.dumps(asdict(run)) + "\n").encode())


def add_sweep(sweep_id: str, name: str, folder: Path, created_at: float) -> None:
    """Append the line of a sweep."""
    add(IndexedRun(sweep_id, name, str(folder), created_at, "sweep"))


def runs() -> list[IndexedRun]:
    """Every indexed experiment that had begun and whose folder still exists, oldest first; a folder listed
    twice counts once. Runs of sweeps are among them, sweeps are not."""
    return [entry for entry in everything() if entry.kind == "run"]


def sweeps() -> list[IndexedRun]:
    """Every indexed sweep that had begun and whose folder still exists, oldest first."""
    return [entry for entry in everything() if entry.kind == "sweep"]


def everything() -> list[IndexedRun]:
    """Runs and sweeps together, as `runs` and `sweeps` list them."""
    try:
        lines = (state_home() / "runs.jsonl").read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    found: dict[str, IndexedRun] = {}
    for line in lines:
        try:
            run = IndexedRun(**json.loads(line))
        except (json.JSONDecodeError, TypeError):
            continue
        if _has_begun(run.dir, run.kind):
            found[run.result_dir] = run
    return list(found.values())


def load_state(result_dir: Path) -> ExperimentState:
    """The state of the experiment in this folder, read without owning it."""
    return fold(journal.read(result_dir / "journal.jsonl"))


def find(word: str | None) -> Path:
    """The result folder of a run or of a sweep that a person means: a path, a name, an id, or (None) the
    newest of both; a run that a sweep started stands for its sweep then.

    Raises UnknownRunError with the closest names.
    """
    known = everything()
    if word is None:
        newest = _newest(known)
        return sweep_of(newest) or newest
    path = Path(word).expanduser()
    if _has_begun(path, "run") or is_sweep(path):
        return path.resolve()
    return _by_word(word, path, known)


def find_run(word: str | None) -> Path:
    """As `find`, but only runs; a sweep is refused with the runs that it has.

    Raises UnknownRunError.
    """
    known = everything()
    only_runs = [entry for entry in known if entry.kind == "run"]
    if word is None:
        return _newest(only_runs)
    path = Path(word).expanduser()
    if _has_begun(path, "run"):
        return path.resolve()
    if is_sweep(path):
        raise UnknownRunError(_not_a_run(path.resolve()))
    try:
        return _by_word(word, path, only_runs)
    except UnknownRunError:
        sweep = _answering(word, [entry for entry in known if entry.kind == "sweep"])
        if sweep is None:
            raise
        raise UnknownRunError(_not_a_run(sweep)) from None


def _has_begun(folder: Path, kind: Kind) -> bool:
    return is_sweep(folder) if kind == "sweep" else journal.has_begun(folder / "journal.jsonl")


def _newest(known: list[IndexedRun]) -> Path:
    if not known:
        raise UnknownRunError("no runs yet: start one with `harness run BLUEPRINT`")
    return known[-1].dir


def _by_word(word: str, path: Path, known: list[IndexedRun]) -> Path:
    """The folder that a name or an id means; `path` is the word read as a path, where nothing has begun."""
    if (path / "journal.jsonl").exists():
        raise UnknownRunError(
            f"{path}: the harness went away before the run had begun; "
            "start it again with `harness run BLUEPRINT`"
        )
    found = _answering(word, known)
    if found is not None:
        return found
    close = difflib.get_close_matches(word, [entry.dir.name for entry in known], n=3)
    hint = f"; did you mean {' or '.join(close)}?" if close else "; `harness ls` lists them"
    raise UnknownRunError(f"no run is called {word!r}, and {path} is not a result folder{hint}")


def _answering(word: str, known: list[IndexedRun]) -> Path | None:
    """The newest folder of this name, else the newest with this name or id in the index."""
    by_folder = [entry for entry in known if entry.dir.name == word]
    by_name = [entry for entry in known if entry.name == word]
    by_id = [entry for entry in known if len(word) >= 4 and entry.experiment_id.startswith(word)]
    return next((found[-1].dir for found in (by_folder, by_name, by_id) if found), None)


def _not_a_run(sweep: Path) -> str:
    """What is said to whom needs one run and names a sweep: which runs it has, as they are typed."""
    begun = [entry.dir.name for entry in runs() if entry.dir.parent == sweep]
    if not begun:
        return f"{sweep} is a sweep, not a run, and none of its runs has begun; `harness show {sweep}`"
    named = ", ".join(begun[:MOST_NAMED])
    more = f" and {len(begun) - MOST_NAMED} more (`harness ls --tree`)" if len(begun) > MOST_NAMED else ""
    return f"{sweep} is a sweep, not a run; name one of its runs, such as {sweep / begun[0]}: {named}{more}"
