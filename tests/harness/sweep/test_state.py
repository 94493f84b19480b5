"""The fold of a sweep's journal, and the plan's way through JSON."""

import json
from pathlib import Path

from harness.journal import Entry
from harness.results.comparing.types import Expectation
from harness.sweep.ending import verdict
from harness.sweep.events import CanaryPassed, Closing, RunEnded, RunLeftOut, RunMeasured, RunStarted
from harness.sweep.hosts import Needs
from harness.sweep.plan import SweepPlan
from harness.sweep.state import apply, fold
from harness.sweep.sweep import load_state
from tests.harness.sweep.plans import begun, plan


def test_a_plan_survives_json() -> None:
    made = plan(
        expectations=(Expectation("a", 2, "higher", "more is more"),),
        needs=Needs(gpus=2, cpus=4.0, ports=("A", "B")),
        budget_s=60.0,
        settings={"x": 1e-6},
    )
    assert SweepPlan.from_json(json.loads(json.dumps(made.as_json()))) == made


def test_the_state_follows_the_entries(tmp_path: Path) -> None:
    sweep = begun(tmp_path)
    assert (sweep.state.phase, len(sweep.state.of("queued"))) == ("canary", 7)
    sweep.record(RunStarted(run="canary", job=1, lease_id="x"))
    sweep.record(RunEnded(run="canary", outcome="succeeded", reason=""))
    sweep.record(CanaryPassed(by="canary"))
    assert sweep.state.phase == "running" and len(sweep.state.of("queued")) == 6
    sweep.record(RunStarted(run="p01-s0", job=1, lease_id="y"))
    sweep.record(RunStarted(run="p01-s0", job=2, lease_id="z"))
    first = sweep.state.runs["p01-s0"]
    assert (first.status, first.job, first.lease_id) == ("running", 2, "z")
    sweep.record(RunEnded(run="p01-s0", outcome="failed", reason="NaN"))
    sweep.record(RunMeasured(run="p01-s0", value=0.5))
    sweep.close()
    state = load_state(tmp_path)
    assert state == fold(sweep.journal.entries)
    assert state.runs["p01-s0"].value == 0.5 and state.runs["p01-s0"].reason == "NaN"


def test_time_that_ran_out_is_no_failure_but_a_failure_is(tmp_path: Path) -> None:
    sweep = begun(tmp_path, plan(1, 2, canary={}))
    sweep.record(CanaryPassed(by="x"))
    sweep.record(RunStarted(run="p01-s0", job=1, lease_id="x"))
    sweep.record(RunEnded(run="p01-s0", outcome="succeeded", reason=""))
    sweep.record(Closing(reason="the budget of the sweep is used up", budget=True))
    before = sweep.state
    left_out = RunLeftOut("p01-s1", "the budget of the sweep is used up")
    out_of_time = verdict(apply(before, Entry(6, 1.0, left_out)))
    assert out_of_time.outcome.value == "timed_out"
    assert "1 of 2 runs succeeded, 1 not run" in out_of_time.reason
    sweep.record(RunStarted(run="p01-s1", job=1, lease_id="x"))
    sweep.record(RunEnded(run="p01-s1", outcome="failed", reason="NaN"))
    assert verdict(sweep.state).outcome.value == "failed"
