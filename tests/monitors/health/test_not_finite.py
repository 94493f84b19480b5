"""When values that are not numbers make a run a lost one."""

from __future__ import annotations

import math

import pytest

from monitors.health import Alarm, Course
from monitors.metrics import Row

NAN, INF = math.nan, math.inf


class Run:
    """A course and every alarm that it raised."""

    def __init__(self) -> None:
        self.course = Course("pane.log")
        self.raised: list[Alarm] = []

    def row(self, step: int, **values: float) -> None:
        row = Row(step, {name.replace("__", "/"): value for name, value in values.items()})
        self.raised += self.course.add(row, step)

    @property
    def fatal(self) -> list[str]:
        return [alarm.text for alarm in self.course.alarms() if alarm.fatal]


@pytest.fixture
def run() -> Run:
    return Run()


@pytest.mark.parametrize(
    "losses",
    [
        [0.5, 0.6, 80.0, 1e6, 0.5],
        [0.5, NAN, 0.5, NAN, NAN, 0.4],
        [NAN, NAN, 0.5],
        [0.0] * 50,
        [1e-3 * (-1) ** step for step in range(50)],
    ],
    ids=["spikes", "NaN that recovers", "bad start", "always zero", "noise about zero"],
)
def test_healthy_losses_give_no_alarm(run: Run, losses: list[float]) -> None:
    for step, loss in enumerate(losses, start=1):
        run.row(step, actor__loss=loss, critic__rewards__mean=0.0)
    assert run.raised == []


def test_three_rows_without_a_finite_loss_are_fatal_until_one_is_finite(run: Run) -> None:
    for step in (7, 8, 9):
        assert run.fatal == []
        run.row(step, actor__pg_loss=NAN, actor__lr=0.1)
    (why,) = run.fatal
    assert "last 3 metric rows" in why
    assert "actor/pg_loss is NaN at step 7 (line 7 of pane.log)" in why and "step 9" in why
    assert run.raised[0].lines == (7, 8, 9) and run.raised[0].family == "numerics_nan"
    run.row(10, actor__pg_loss=0.5)
    assert run.fatal == [] and run.course.at_end() == []


def test_rows_of_validations_and_timings_neither_count_nor_clear(run: Run) -> None:
    for step in (1, 2):
        run.row(step, loss=NAN)
        run.row(step, val__reward=NAN)
        run.row(step, timing_s__step=3.0)
    assert run.fatal == []
    run.row(3, loss=NAN)
    assert len(run.fatal) == 1


def test_infinite_gradient_norms_of_a_loss_scale_coming_down_are_healthy_but_not_for_ever(run: Run) -> None:
    for step in range(1, 17):
        run.row(step, loss=0.5, grad_norm=INF if step % 2 else NAN)
    assert run.fatal == []
    for step in range(17, 21):
        run.row(step, loss=0.5, grad_norm=INF)
    assert "grad_norm is infinite at step 1" in run.fatal[0]


@pytest.mark.parametrize(
    ("last", "kind", "worthless"),
    [
        ([{"loss": NAN}], None, False),
        ([{"loss": NAN}] * 2, "nan", True),
        ([{"loss": 0.0, "grad_norm": NAN}] * 2, None, False),
        ([{"loss": 0.0, "grad_norm": NAN}] * 3, "nan_gradients", False),
        ([{"loss": 0.5, "grad_norm": INF}] * 9, None, False),
        ([{"loss": 0.5, "grad_norm": INF}] * 10, "nan_gradients", True),
    ],
)
def test_run_that_ends_so(run: Run, last: list[dict[str, float]], kind: str | None, worthless: bool) -> None:
    run.row(1, loss=0.5, grad_norm=1.0)
    for step, values in enumerate(last, start=2):
        run.row(step, **values)
    found = run.course.at_end()
    assert [alarm.kind for alarm in found] == ([kind] if kind else [])
    assert all(alarm.worthless == worthless and not alarm.fatal for alarm in found)
    assert all(alarm.lines[-1] == 1 for alarm in found)  # the last good row comes last
