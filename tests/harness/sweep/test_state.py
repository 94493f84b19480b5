"""The fold of a sweep's journal."""

from pathlib import Path

from harness.sweep.ending import verdict
from harness.sweep.events import CanaryPassed, Closing, RunEnded, RunLeftOut, RunMeasured, RunStarted
from harness.sweep.state import fold, load_state
from tests.harness.sweep.plans import begun, plan
from tests.harness.sweep.sweep_states import CHECKED, ended, started, state, succeeded


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
    read = load_state(tmp_path)
    assert read == fold(sweep.journal.entries)
    assert (read.runs["p01-s0"].value, read.runs["p01-s0"].reason) == (0.5, "NaN")


def test_time_that_ran_out_is_no_failure_but_a_failure_is() -> None:
    made, why = plan(1, 2, canary={}), "the budget of the sweep is used up"
    over = (CHECKED, *succeeded(0, 1, "p01-s0", 0.5), (2.0, Closing(why, budget=True)))
    out_of_time = verdict(state(made, *over, (3.0, RunLeftOut("p01-s1", why))))
    assert out_of_time.outcome.value == "timed_out"
    assert "1 of 2 runs succeeded, 1 not run" in out_of_time.reason
    failed = verdict(
        state(plan(1, 2, canary={}), *over, started(3, "p01-s1"), ended(4, "p01-s1", "failed", "NaN"))
    )
    assert failed.outcome.value == "failed"
