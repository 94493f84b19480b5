"""The fold of a sweep's journal, and how a sweep stands: counts, means so far, the best, the time left."""

import pytest

from harness.journal.events import Finish
from harness.outcome import Outcome
from harness.sweep.plan import SweepPlan
from harness.sweep.reporting import verdict
from harness.sweep.run_files import Progress
from harness.sweep.state import Closing, RunLeftOut
from harness.sweep.status import SweepStatus, labels, status
from tests.harness.sweep.sweep_states import (
    BEGIN,
    CHECKED,
    Timed,
    ended,
    measured,
    plan,
    started,
    state,
    succeeded,
)

KL = {"ajet.kl_loss_coef": [0.001, 0.01]}


def stands(made: SweepPlan, *events: Timed, at: float, **progress: Progress) -> SweepStatus:
    """The sweep so many seconds after the beginning; `progress` by run, with _ for -."""
    where = {name.replace("_", "-"): value for name, value in progress.items()}
    return status(state(made, CHECKED, *events), BEGIN + at, lambda run: where.get(run, Progress()))


def test_means_are_of_the_runs_that_count() -> None:
    now = stands(
        plan(KL),
        *succeeded(0, 100, "p01-s0", 0.5),
        *succeeded(0, 100, "p01-s1", 0.7),
        *(started(0, "p02-s0"), ended(50, "p02-s0", "failed", "out of memory"), measured(50, "p02-s0", 0.99)),
        *(started(0, "p02-s1"), ended(80, "p02-s1", "timed_out", "max time"), measured(80, "p02-s1", 0.55)),
        started(100, "p01-s2"),
        at=130,
    )
    first, second = now.points
    assert (first.mean, len(first.values)) == (pytest.approx(0.6), 2)
    assert second.values == [0.55], "a failed run has no value"
    assert now.best is first
    assert dict(now.counts) == {"done": 3, "failed": 1, "running": 1, "queued": 1}
    assert now.elapsed_s == 130
    now = stands(plan(KL, canary={"total_training_steps": 2}), *succeeded(0, 9, "canary", 0.9), at=10)
    assert now.canary is not None and now.canary.stage == "done"
    assert len(now.compared) == 6 and now.best is None, "the canary is no run of a point"


def test_the_best_is_the_lowest_where_lower_is_better() -> None:
    events = [*succeeded(0, 9, "p01-s0", 0.5), *succeeded(0, 9, "p02-s0", 0.2)]
    best = stands(plan(KL, metric="", goal="min"), *events, at=10).best
    assert best is not None and best.name == "p02"
    assert stands(plan(KL), at=10).best is None


def test_labels_say_what_differs() -> None:
    made = plan({"a.lr": ["1e-6", "1e-5"], "arg:--warm": [True, False]})
    assert list(labels(made).values()) == ["baseline", "warm=false", "lr=1e-5", "lr=1e-5 warm=false"]
    alike = labels(plan({"actor.lr": [1, 2], "critic.lr": [1, 2]}))
    assert (alike["p02"], alike["p03"]) == ("critic.lr=2", "actor.lr=2")


def test_the_time_left_is_that_of_the_slots() -> None:
    """Runs take 100 s; 20 runs on 4 slots, 4 are done, 4 have run for 40 s: 60 s and 3 more rounds."""
    made = plan({"k": list(range(5))}, seeds=(0, 1, 2, 3), parallel=4)
    names = [run.name for run in made.runs]
    events = [event for name in names[:4] for event in succeeded(0, 100, name, 0.5)]
    events += [started(100, name) for name in names[4:8]]
    assert stands(made, *events, at=140).left_s == pytest.approx(60 + 3 * 100)
    short = plan(KL, budget_s=250.0, parallel=1)
    now = stands(short, *succeeded(0, 100, "p01-s0", 0.5), at=150)
    assert (now.left_s, now.budget_left_s) == (100, 100), "it is never beyond the budget"


def test_before_any_run_has_ended_the_speed_of_those_that_run_tells() -> None:
    made = plan(KL, seeds=(0,), parallel=2)
    running = [started(0, "p01-s0"), started(0, "p02-s0")]
    assert stands(made, *running, at=100).left_s is None
    assert stands(made, *running, at=100, p01_s0=Progress(1, 240)).left_s is None, "one step tells too little"
    now = stands(made, *running, at=100, p01_s0=Progress(50, 200), p02_s0=Progress(25, 200))
    assert now.left_s == pytest.approx(100 * 200 / 25 - 100), "as long as the slower one"


def test_nothing_is_left_once_it_is_finished() -> None:
    finished: Timed = (300.0, Finish(Outcome.CANCELLED, "stopped"))
    skipped: list[Timed] = [(250.0, RunLeftOut(run.name, "stopped")) for run in plan(KL).runs[1:]]
    now = stands(plan(KL, budget_s=1000.0), *succeeded(0, 100, "p01-s0", 0.5), *skipped, finished, at=9999)
    assert (now.elapsed_s, now.left_s, now.budget_left_s) == (300, None, None)
    assert dict(now.counts) == {"done": 1, "cancelled": 5}


def test_time_that_ran_out_is_no_failure_but_a_failure_is() -> None:
    made, why = plan({"a": [1]}, (0, 1), canary={}), "the budget of the sweep is used up"
    over = (CHECKED, *succeeded(0, 1, "p01-s0", 0.5), (2.0, Closing(why, budget=True)))
    out_of_time = verdict(state(made, *over, (3.0, RunLeftOut("p01-s1", why))))
    assert out_of_time.outcome.value == "timed_out"
    assert "1 of 2 runs succeeded, 1 not run" in out_of_time.reason
    failed = state(made, *over, started(3, "p01-s1"), ended(4, "p01-s1", "failed", "NaN"))
    assert verdict(failed).outcome.value == "failed"
