"""A scheduler that is killed, again and again, at any instant."""

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from harness import journal
from harness.sweep.state import SWEEP, RunEnded, load_state
from tests.harness.sweep.plans import begun, plan
from tests.harness.sweep.process_host import DIES_ONCE

SLOTS = 4
PATIENCE_S = 60.0


def started(folder: Path) -> "subprocess.Popen[str]":
    """A scheduler that has been imported and is about to open the sweep."""
    command = [sys.executable, "-m", "tests.harness.sweep.process_host", str(folder), str(SLOTS)]
    scheduler = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert scheduler.stdout is not None and scheduler.stdout.readline() == "ready\n"
    return scheduler


def killed_repeatedly(folder: Path, kills: int, chance: random.Random) -> int:
    """Run the sweep, killing so many schedulers; the last is left alone. Returns how many died."""
    for deaths in range(kills):
        with started(folder) as scheduler:
            try:
                assert scheduler.wait(chance.uniform(0.0, 0.15)) == 0
                return deaths
            except subprocess.TimeoutExpired:
                scheduler.kill()
    with started(folder) as scheduler:
        assert scheduler.wait(PATIENCE_S) == 0
    return kills


@pytest.mark.parametrize(("kills", "points"), [(4, 8), pytest.param(30, 40, marks=pytest.mark.soak)])
def test_no_run_twice_none_lost_all_reported(tmp_path: Path, kills: int, points: int) -> None:
    made = plan(points, 3, parallel=SLOTS)
    begun(tmp_path, made).close()
    assert killed_repeatedly(tmp_path, kills, random.Random(kills)) >= kills / 2, "it was hardly disturbed"
    state = load_state(tmp_path)
    assert state.verdict is not None and state.verdict.outcome.value == "succeeded"
    names = ["canary", *(run.name for run in made.runs)]
    starts = {name: (tmp_path / name / "starts").read_text().split() for name in names}
    assert [len(starts[name]) for name in names] == [1 + (name == DIES_ONCE) for name in names]
    assert len(set(starts[DIES_ONCE])) == 2, "each job has a lease of its own"
    entries = journal.read(tmp_path / "sweep.jsonl", SWEEP)
    told = Counter(entry.event.run for entry in entries if isinstance(entry.event, RunEnded))
    assert told == dict.fromkeys(names, 1), "every end is recorded, and once"
    flag = json.loads((tmp_path / "finish.flag").read_text())
    assert flag["runs"] == {run.name: "succeeded" for run in made.runs}
    assert flag["headline"] == [f"{points * 3} runs"]
    assert list((tmp_path / "leases").iterdir()) == [], "all leases were given back"
