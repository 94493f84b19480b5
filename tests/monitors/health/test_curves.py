"""Many healthy trainings without an alarm, and sick ones each with its own: real ones, and known shapes."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from monitors.health import Alarm, Course, assess
from monitors.metrics import Row, row_from_object
from monitors.rules import AlarmKind
from tests.monitors.health.shapes import HEALTHY, SICK

CURVES = Path(__file__).parent / "curves"
RECORDED_HEALTHY = sorted((CURVES / "healthy").glob("*.jsonl"))
RECORDED_SICK: dict[
    str, tuple[AlarmKind, int, int]
] = {  # kind, row that shows it, most rows until it is told
    "divergence": ("divergence", 41, 5),
    "entropy_collapse": ("entropy_collapse", 31, 19),
    "length_runs_away": ("length_at_cap", 12, 19),
    "nan_gradients": ("nan_gradients", 40, 19),
    "nothing_trained": ("no_signal", 1, 19),
    "reward_collapse": ("reward_collapse", 19, 50),
    "reward_stuck": ("reward_stuck", 2, 99),
}
BESIDES = {  # what else is true of a curve
    "divergence": {"gradient_spikes"},
    "length_runs_away": {"reward_stuck"},
    "reward_collapse": {"length_at_cap", "reward_stuck"},
    "entropy_gone": {"reward_collapse"},
    "cut_off": {"reward_collapse"},
}
SEEDS = range(3)
ENDS = (3, 10, 25, 50, 90, 160)


def recorded(path: Path) -> list[Row]:
    rows = [row_from_object(json.loads(line)) for line in path.read_text().splitlines()]
    assert rows and None not in rows
    return [row for row in rows if row is not None]


def made(name: str, seed: int) -> list[Row]:
    return HEALTHY[name](random.Random(seed))


def told(rows: list[Row]) -> list[tuple[int, Alarm]]:
    """The alarms of a run while it goes on, each with the number of its row."""
    course = Course()
    return [(number, alarm) for number, row in enumerate(rows, 1) for alarm in course.add(row, number)]


def numbered(rows: list[Row]) -> list[tuple[int, Row]]:
    return list(enumerate(rows, start=1))


def check_healthy(rows: list[Row], is_still_zero: int = 0) -> None:
    assert told(rows) == []
    for end in (*ENDS, len(rows)):
        if end > is_still_zero:
            assert assess(numbered(rows[:end])) == [], f"if it had ended at step {end}"


@pytest.mark.parametrize("path", RECORDED_HEALTHY, ids=[path.stem for path in RECORDED_HEALTHY])
def test_recorded_healthy_run_gives_no_alarm_wherever_it_ends(path: Path) -> None:
    check_healthy(recorded(path))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_shape_gives_no_alarm_wherever_it_ends(name: str, seed: int) -> None:
    rewarded_after = 60 if name == "sparse" else 16 if name == "loss_scale_comes_down" else 0
    check_healthy(made(name, seed), rewarded_after)


@pytest.mark.parametrize("name", RECORDED_SICK)
def test_recorded_sick_run_is_told(name: str) -> None:
    kind, start, delay = RECORDED_SICK[name]
    rows = recorded(CURVES / "sick" / f"{name}.jsonl")
    check_sick(rows, kind, start, delay, BESIDES.get(name, set()))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", SICK)
def test_sick_shape_is_told(name: str, seed: int) -> None:
    kind, start, delay, make = SICK[name]
    check_sick(make(random.Random(seed)), kind, start, delay, BESIDES.get(name, set()))


def check_sick(rows: list[Row], kind: AlarmKind, start: int, delay: int, besides: set[str]) -> None:
    live = told(rows)
    first = next(number for number, alarm in live if alarm.kind == kind)
    assert start <= first <= start + delay
    assert {alarm.kind for _, alarm in live} <= {kind, *besides}
    found = {alarm.kind: alarm for alarm in assess(numbered(rows))}
    assert found.keys() <= {kind, *besides} and not found[kind].passed
    assert all(start <= line <= len(rows) for line in found[kind].lines[:3])


def test_there_are_as_many_curves_as_are_claimed() -> None:
    assert len(RECORDED_HEALTHY) + len(HEALTHY) == 29
    assert len(RECORDED_SICK) + len(SICK) == 25
