"""Sweeps through the real command line: real trainings, real tmux, a leader that is killed."""

import random
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.bench import PATIENCE_S, sessions, until
from tests.e2e.sweep_bench import SweepBench
from tools.chaos_machine import Machine
from tools.chaos_runs import LETHAL, VICTIMS, Sweep


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
    until(lambda: (sweep.dir / "sweep.jsonl").exists() and sweep.sweep_state.plan.runs, "the sweep")
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


@pytest.mark.soak
def test_forty_kills_of_anything_in_it(tmp_path: Path) -> None:
    """Leader, jobs, their supervisors, fronts, shells and trainings, and the tmux server."""
    draw = random.Random(20261122)
    machine = Machine(tmp_path)
    sweep = Sweep(machine, 1, draw, 180.0)

    def is_over() -> bool:  # a leader that was just killed may have been there a moment ago
        if not sweep.is_watched and not sweep.has_flag:
            sweep.go_on()
        return sweep.has_flag and not sweep.is_watched

    try:
        sweep.go_on()
        while sweep.met.total() < 40 and not sweep.has_flag:
            time.sleep(draw.uniform(0.2, 1.5))
            strike(sweep, draw)
            is_over()
        until(is_over, "the end of the sweep", 600.0)
        until(lambda: not list(sweep.problems()), f"that nothing is wrong: {list(sweep.problems())}", 60.0)
        assert sweep.met.total() == 40
    finally:
        machine.close()


def strike(sweep: Sweep, draw: random.Random) -> None:
    """Kill something; at most four times what costs a run its attempt."""
    victim = draw.choice([*VICTIMS, "harness", "tmux server"])
    lost = sum(sweep.met[kind] for kind in LETHAL)
    if victim == "tmux server":
        sweep.machine.tmux("kill-server")
        sweep.met["kill tmux server"] += 1
    elif lost < 4 or f"kill {victim}" not in LETHAL:
        killed = [sweep.machine.signal(pid, signal.SIGKILL) for pid in sweep.pids(victim, draw)]
        sweep.met[f"kill {victim}"] += any(killed)
