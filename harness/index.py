"""Where this user's result folders are (`$XDG_STATE_HOME/harness/runs.jsonl`, one line per experiment and one
per sweep created), and of which kind a folder is.

The index only finds folders; what is true of an experiment or a sweep stands in its own journal. A folder
that was moved or deleted simply is not listed any more.
"""

import difflib
import fcntl
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from harness.atomic_write import append_lines, has_whole_line, write_atomically
from harness.errors import UserError
from harness.wording import listed
from monitors.launch import state_home

if TYPE_CHECKING:
    from harness.state import ExperimentState

Kind = Literal["run", "sweep"]
JOURNAL = "sweep.jsonl"
"""The journal of a sweep; that of a run is `journal.jsonl`."""
MOST_NAMED = 5  # runs that a message about a sweep names
MOST_LISTED = 20  # folders that a message lists, one a line
_BREAK = "\n  "
_log = logging.getLogger(__name__)


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


def is_sweep(folder: Path) -> bool:
    """True if a sweep has begun in this folder."""
    return _has_begun(folder, "sweep")


def journal_of(folder: Path) -> Path:
    """The journal of the run or the sweep in this folder."""
    return folder / (JOURNAL if is_sweep(folder) else "journal.jsonl")


def sweep_of(run_dir: Path) -> Path | None:
    """The sweep that a run's result folder belongs to; None for a run of its own."""
    return run_dir.parent if is_sweep(run_dir.parent) else None


def whole_sweep(folders: Sequence[Path]) -> Path | None:
    """The sweep that these folders are, runs of its own beside it or not; None for anything else."""
    whole = {folder.resolve() for folder in folders if is_sweep(folder)}
    others = {sweep_of(folder.resolve()) for folder in folders if not is_sweep(folder)}
    return next(iter(whole)) if len(whole) == 1 and others <= whole else None


def load_state(result_dir: Path) -> "ExperimentState":
    """The state of the experiment in this folder, read without owning it."""
    from harness import journal
    from harness.state import fold

    return fold(journal.read(result_dir / "journal.jsonl"))


def add(run: IndexedRun) -> None:
    """Have `harness ls` and `resume --all` find a folder; where that cannot be written, it is only logged."""
    try:
        with _locked() as path:
            append_lines(path, json.dumps(asdict(run)) + "\n")
    except OSError as error:
        _log.warning("%s will not be listed by `harness ls`: %s", run.dir, error)


def remove(folder: Path) -> None:
    """Take the lines of a folder, and of those in it, out of the index."""
    with _locked() as path:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        kept = [line for line in lines if not (run := _run(line)) or not run.dir.is_relative_to(folder)]
        write_atomically(path, "".join(kept))


@contextmanager
def _locked() -> Iterator[Path]:
    """The index, while nobody else changes it."""
    state_home().mkdir(parents=True, exist_ok=True)
    with (state_home() / "runs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield state_home() / "runs.jsonl"


def _run(line: str) -> IndexedRun | None:
    try:
        return IndexedRun(**json.loads(line))
    except (json.JSONDecodeError, TypeError):
        return None


def everything(kind: Kind | None = None) -> list[IndexedRun]:
    """Every indexed experiment and sweep (or only one kind) that had begun and whose folder still exists,
    oldest first; a folder listed twice counts once. Runs of sweeps are among the runs."""
    try:
        text = (state_home() / "runs.jsonl").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return []
    found: dict[str, IndexedRun] = {}
    for run in filter(None, map(_run, text.splitlines())):
        if kind in (None, run.kind) and _has_begun(run.dir, run.kind):
            found.pop(run.result_dir, None)  # a folder that is used again counts from then on
            found[run.result_dir] = run
    return list(found.values())


def top_level() -> dict[Path, Kind]:
    """The folders that are no part of a sweep, oldest first; a sweep is also found through its runs."""
    sweeps: dict[Path, bool] = {}
    found: dict[Path, Kind] = {}
    for entry in everything():
        parent = entry.dir.parent
        if entry.kind == "run" and sweeps.setdefault(parent, is_sweep(parent)):
            found.setdefault(parent, "sweep")
        else:
            found[entry.dir] = entry.kind
    return found


def unfinished() -> list[Path]:
    """The runs of their own and the sweeps that have not come to their end."""
    return [folder for folder in top_level() if not (folder / "finish.flag").exists()]


def only(candidates: Sequence[Path], what: str) -> Path:
    """The one folder that a command without a name can mean. `what`: the candidates in words, such as `run to
    stop`. Raises UnknownRunError for none or several."""
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        raise UnknownRunError(f"there is no {what}")
    newest = [str(folder) for folder in reversed(candidates)]
    raise UnknownRunError(
        f"there is more than one {what}; name the one that is meant:\n  {listed(newest, MOST_LISTED, _BREAK)}"
    )


def runs() -> list[IndexedRun]:
    return everything("run")


def find(word: str | None) -> Path:
    """The result folder of a run or of a sweep that a person means: a path, a name, an id, or (None) the
    newest of both; a run that a sweep started stands for its sweep then.

    Raises UnknownRunError with the closest names, or with the folders where several answer to it.
    """
    if word is None:
        newest = _newest(everything())
        return sweep_of(newest) or newest
    path = Path(word).expanduser()
    if _has_begun(path, "run") or is_sweep(path):
        return path.resolve()
    return _by_word(word, path, everything())


def find_run(word: str | None) -> Path:
    """As `find`, but only runs; a sweep is refused with the runs that it has. Raises UnknownRunError."""
    if word is None:
        return _newest(runs())
    path = Path(word).expanduser()
    is_path = _has_begun(path, "run") or is_sweep(path)
    found = (None if is_path else _answering(word, runs())) or find(word)
    if not _has_begun(found, "run"):
        raise UnknownRunError(_not_a_run(found))
    return found


def _has_begun(folder: Path, kind: Kind) -> bool:
    return has_whole_line(folder / (JOURNAL if kind == "sweep" else "journal.jsonl"))


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
    """The folder of this name, else with this name or id in the index. Raises UnknownRunError for several."""
    by_folder = [entry for entry in known if entry.dir.name == word]
    by_name = [entry for entry in known if entry.name == word]
    by_id = [entry for entry in known if len(word) >= 4 and entry.experiment_id.startswith(word)]
    found = [entry.dir for entry in next(filter(None, (by_folder, by_name, by_id)), [])]
    if len(found) > 1:
        paths = listed([str(folder) for folder in reversed(found)], MOST_LISTED, _BREAK)
        raise UnknownRunError(f"{len(found)} runs answer to {word!r}; name the folder:\n  {paths}")
    return found[0] if found else None


def _not_a_run(sweep: Path) -> str:
    """What is said to whom needs one run and names a sweep: which runs it has, as they are typed."""
    begun = [entry.dir.name for entry in runs() if entry.dir.parent == sweep]
    if not begun:
        return f"{sweep} is a sweep, not a run, and none of its runs has begun; `harness show {sweep}`"
    named = listed(begun, MOST_NAMED) + (" (`harness ls --tree`)" if len(begun) > MOST_NAMED else "")
    return f"{sweep} is a sweep, not a run; name one of its runs, such as {sweep / begun[0]}: {named}"
