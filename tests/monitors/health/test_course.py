"""What the rules make of borderline cases, each beside its neighbour that is judged otherwise."""

from __future__ import annotations

from typing import get_args

import pytest

from monitors.health import Course
from monitors.health.types import FAMILIES
from monitors.metrics import Row
from monitors.rules import AlarmKind


def at_end(rows: list[dict[str, float]], errors_after: tuple[int, ...] = ()) -> dict[str, bool]:
    """Kinds of alarms when the run is over, and whether they make it worthless."""
    course = Course()
    for step, values in enumerate(rows, start=1):
        course.add(Row(step, values), step)
        if step in errors_after:
            course.error()
    return {alarm.kind: alarm.worthless for alarm in course.at_end()}


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([{"reward": 0.0}] * 9, {}),
        ([{"reward": 0.0}] * 10, {"reward_stuck": True}),
        ([{"reward": -1.0}] * 10, {"reward_stuck": False}),
        ([{"reward": 0.5}] * 10, {"reward_stuck": False}),
        ([{"reward": 1.0}] * 200, {}),
        ([{"reward": 0.0}] * 30 + [{"reward": 0.1}], {}),
        ([{"reward": 0.0}] * 20 + [{"reward": 0.0, "val/accuracy": 0.5}], {}),
        ([{"val/accuracy": 0.5}] + [{"reward": 0.0}] * 20, {"reward_stuck": True}),
        ([{"reward": 0.0, "critic/success_rate": 0.25}] * 20, {}),
        ([{"critic/score/mean": 0.0, "critic/score/max": 1.0, "critic/score/min": -1.0}] * 20, {}),
        ([{"reward": 0.3}] + [{"reward": 0.0}] * 60, {"reward_stuck": True}),
        ([{"reward": 0.3}] * 50 + [{"reward": 0.0}] * 20, {}),
        ([{"loss": 0.5}] * 50, {}),
    ],
)
def test_reward_that_does_not_move(rows: list[dict[str, float]], found: dict[str, bool]) -> None:
    assert at_end(rows) == found


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (
            [{"loss": 0.0, "grad_norm": float("nan")}] * 10 + [{"train_loss": 0.5, "train_runtime": 3.0}],
            {"nan_gradients": True},
        ),
        ([{"train_loss": 2.3068}] * 7, {}),
        ([{"train_loss": 2.3068}] * 9, {"no_signal": False}),
        ([{"train_loss": 2.3068, "val_loss": 2.31}] * 10, {"no_signal": True}),
        ([{"train_loss": 2.3}] * 50, {}),
        ([{"train_loss": 0.6931, "train_acc": 0.5 + step / 100} for step in range(12)], {}),
        ([{"train_loss": 0.6931, "val_acc": 0.5 + step / 100} for step in range(12)], {}),
        ([{"train_loss": 2.3068, "reward": 1.0}] * 50, {}),
        ([{"train_loss": 2.3068}] * 50 + [{"train_loss": 2.3067}], {}),
        ([{"loss": 0.0, "grad_norm": 0.0}] * 9, {"no_signal": False}),
        ([{"loss": 0.0, "grad_norm": 0.0}] * 10, {"no_signal": True}),
        ([{"loss": 0.1, "grad_norm": 1.0}] + [{"loss": 0.0, "grad_norm": 0.0}] * 90, {}),
        ([{"loss": 0.0, "grad_norm": 0.1}] * 90, {}),
    ],
)
def test_supervised_training_without_gradients(rows: list[dict[str, float]], found: dict[str, bool]) -> None:
    assert at_end(rows) == found


TRAINED = {"reward": 0.5}
FAILED = {"reward": 0.6, "val/accuracy": 0.0}


@pytest.mark.parametrize(
    ("rows", "errors_after", "found"),
    [
        ([*[TRAINED] * 20, *[FAILED, TRAINED] * 4], (), {}),
        ([*[TRAINED] * 20, *[FAILED, TRAINED] * 5], (), {"evaluation_fails": False}),
        ([*[TRAINED] * 20, *[FAILED, TRAINED] * 3], (20, 22, 24), {"evaluation_fails": True}),
        ([*[{"reward": 0.1}, {"reward": 0.12}] * 10, *[{"reward": 0.1, "val/accuracy": 0.0}] * 8], (), {}),
        ([*[TRAINED] * 20, *[FAILED, TRAINED] * 8, {"reward": 0.6, "val/accuracy": 0.1}], (), {}),
        (
            [{"loss": 0.5 + step % 3, "eval_loss": float("nan")} for step in range(4)],
            (),
            {"evaluation_fails": True},
        ),
    ],
)
def test_validations_that_fail(
    rows: list[dict[str, float]], errors_after: tuple[int, ...], found: dict[str, bool]
) -> None:
    varied = [
        {**row, "reward": row["reward"] + step % 5 / 50} if "reward" in row else row
        for step, row in enumerate(rows)
    ]
    assert at_end(varied, errors_after) == found


def test_value_function_may_grow_with_the_returns_but_not_by_a_million() -> None:
    def losses(last: float) -> list[dict[str, float]]:
        return [{"critic/vf_loss": 0.1 + step % 3} for step in range(40)] + [{"critic/vf_loss": last}] * 10

    assert at_end(losses(9e3)) == {}
    assert at_end(losses(9e7)) == {"divergence": True}


def test_divergence_that_comes_back_has_passed() -> None:
    course, raised = Course(), []
    for step, loss in enumerate([2.0] * 20 + [900.0] * 10 + [150.0] * 10 + [3.0] * 5, start=1):
        raised += [(step, alarm.kind) for alarm in course.add(Row(step, {"loss": loss}), step)]
        if step == 40:
            assert [alarm.kind for alarm in course.alarms()] == ["divergence"]
    assert raised == [(25, "divergence")] and course.alarms() == []


def test_every_kind_has_a_family_that_diagnosis_knows() -> None:
    assert FAMILIES.keys() <= set(get_args(AlarmKind))
    assert set(FAMILIES.values()) == {"numerics_nan", "hang_no_output", "disk_full", "host_oom"}
