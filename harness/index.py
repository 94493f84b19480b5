"""Where this user's result folders are: `$XDG_STATE_HOME/harness/runs.jsonl`, one line per experiment
created.

The index only finds folders; what is true of an experiment stands in its own journal. A folder that was
moved or deleted simply is not listed any more.
"""

import difflib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from harness import journal
from harness.state import ExperimentState, fold
from monitors.launch import state_home


class UnknownRunError(Exception):
    """No result folder answers to the name, id or path given."""


@dataclass(frozen=True)
class IndexedRun:
    """One line of the index."""

    experiment_id: str
    name: str
    result_dir: str
    created_at: float

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


def runs() -> list[IndexedRun]:
    """Every indexed experiment that had begun and whose folder still exists, oldest first; a folder listed
    twice counts once."""
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
        if journal.has_begun(run.dir / "journal.jsonl"):
            found[run.result_dir] = run
    return list(found.values())


def load_state(result_dir: Path) -> ExperimentState:
    """The state of the experiment in this folder, read without owning it."""
    return fold(journal.read(result_dir / "journal.jsonl"))


def find(word: str | None) -> Path:
    """The result folder that a person means: a path, a run's name, its id, or (None) the newest run.

    Raises UnknownRunError with the closest names.
    """
    known = runs()
    if word is None:
        if not known:
            raise UnknownRunError("no runs yet: start one with `harness run BLUEPRINT`")
        return known[-1].dir
    path = Path(word).expanduser()
    if journal.has_begun(path / "journal.jsonl"):
        return path.resolve()
    if (path / "journal.jsonl").exists():
        raise UnknownRunError(
            f"{path}: the harness went away before the run had begun; "
            "start it again with `harness run BLUEPRINT`"
        )
    by_folder = [run for run in known if run.dir.name == word]
    by_name = [run for run in known if run.name == word]
    by_id = [run for run in known if len(word) >= 4 and run.experiment_id.startswith(word)]
    for found in (by_folder, by_name, by_id):
        if found:
            return found[-1].dir
    close = difflib.get_close_matches(word, [run.dir.name for run in known], n=3)
    hint = f"; did you mean {' or '.join(close)}?" if close else "; `harness ls` lists them"
    raise UnknownRunError(f"no run is called {word!r}, and {path} is not a result folder{hint}")
