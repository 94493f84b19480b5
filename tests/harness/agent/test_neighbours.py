"""Which other runs train in the same codebase at the same time."""

import json
import os
from pathlib import Path

from harness import index
from harness.agent.neighbours import others_train_in
from harness.codec import encode
from monitors.processes import boot_id, read_process
from tests.harness.results.journals import Story
from tests.harness.runs import planned


def run(folder: Path, codebase: Path, ended_at: float) -> Path:
    """A run whose training ended then."""
    (folder / "attempts/01").mkdir(parents=True)
    (folder / "attempts/01/exit.json").write_text(
        json.dumps({"attempt_id": "a", "reason": "exited", "ended_at": ended_at})
    )
    Story().created("playbook", **encode(planned({"codebase_dir": str(codebase)}))).write(folder)
    index.add(index.IndexedRun(folder.name, folder.name, str(folder), 1.0))
    return folder


def test_a_run_in_the_same_codebase_counts_while_it_trains(tmp_path: Path) -> None:
    code, elsewhere = tmp_path / "code", tmp_path / "elsewhere"
    own = run(tmp_path / "own", code, 500.0)
    assert not others_train_in(code, own, 100.0)
    run(tmp_path / "other", code, 300.0)
    run(tmp_path / "apart", elsewhere, 9000.0)
    assert others_train_in(code, own, 299.0)
    assert others_train_in(code / "inner", own, 299.0)
    assert not others_train_in(code, own, 301.0)
    started = tmp_path / "other" / "attempts" / "02" / "started"
    started.mkdir(parents=True)
    myself = read_process(os.getpid())
    assert myself is not None
    record = {"attempt_id": "b", "pid": myself.pid, "start_ticks": myself.start_ticks, "boot_id": boot_id()}
    (started / "supervisor.json").write_text(json.dumps(record))
    assert others_train_in(code, own, 301.0)  # a second attempt, which runs now
