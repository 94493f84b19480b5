"""Sweeps through the real command line: real trainings, real tmux, a leader that is killed."""

import random
from pathlib import Path

import pytest

from tests.e2e.bench import PATIENCE_S, sessions, until
from tests.e2e.sweep_bench import SweepBench


def test_a_sweep_survives_its_leader_and_names_what_failed(tmp_path: Path) -> None:
    sweep = SweepBench(tmp_path, {"p02-lr-0.2-s1": "for good"}, pause=0.3)
    leader = sweep.start(*sweep.arguments("arg:--lr=0.1,0.2", seeds=2))
    until(lambda: len(sweep.starts()) >= 2, "two trainings")
    assert sweep.kill_leader()
    leader.end(PATIENCE_S)
    output = sweep.harness("resume", str(sweep.dir), status=1)
    assert "p02-lr-0.2-s1" in output
    assert set(sweep.starts().values()) == {1}
    outcomes = {name: run.outcome for name, run in sweep.sweep_state.runs.items()}
    assert outcomes == {
        "p01-lr-0.1-s0": "succeeded",
        "p02-lr-0.2-s0": "succeeded",
        "p01-lr-0.1-s1": "succeeded",
        "p02-lr-0.2-s1": "failed",
    }
    report = (sweep.dir / "sweep_report.md").read_text()
    assert "p02-lr-0.2-s1" in report
    assert [point["value"]["n"] for point in sweep.comparison["points"]] == [2, 1]
    assert (sweep.dir / "points.csv").read_text().count("\n") == 5
    sweep.harness("verify", str(sweep.dir))
    assert "p02-lr-0.2-s1" in sweep.harness("ls", "--tree")
    assert sessions() == []


@pytest.mark.soak
def test_thirty_kills_of_the_leader(tmp_path: Path) -> None:
    """Killed at 30 random instants: no point run twice, none lost."""
    draw = random.Random(20261121)
    sweep = SweepBench(tmp_path, {"p03-lr-0.3-s2": "once"}, steps=6, pause=0.5)
    leader = sweep.start(*sweep.arguments("arg:--lr=0.1,0.2,0.3,0.4,0.5,0.6", seeds=3))
    until(lambda: (sweep.dir / "sweep.jsonl").exists() and sweep.sweep_state.plan is not None, "the sweep")
    kills = 0
    while kills < 30 and not (sweep.dir / "finish.flag").exists():
        if not leader.is_over(draw.uniform(0.2, 6.0)):
            leader.kill()
            kills += 1
        leader.end(PATIENCE_S)
        leader = sweep.start("resume", str(sweep.dir))
    leader.end(600.0)
    assert kills == 30
    assert len(sweep.sweep_state.runs) == 18
    assert {run.outcome for run in sweep.sweep_state.runs.values()} == {"succeeded"}
    starts = sweep.starts()
    assert set(starts.values()) == {1}
    assert len(starts) == 19  # one run failed once and was repaired
