"""What rules count with, against plain versions of the same."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitors.health import LiveHealth
from monitors.health.evidence import Level, Progress, Streak, Window
from monitors.health.names import read
from monitors.metrics import Row

VALUES = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=120)


@given(VALUES, st.integers(2, 20))
def test_window_is_mean_and_deviation_of_the_last_values(values: list[float], length: int) -> None:
    window = Window(length)
    for value in values:
        window.add(value)
    last = values[-length:]
    assert window.is_full == (len(values) >= length)
    assert window.mean() == pytest.approx(statistics.fmean(last), abs=1e-6)
    assert window.deviation() == pytest.approx(statistics.pstdev(last), abs=1e-3)


@given(VALUES, st.integers(1, 30))
def test_level_is_the_median_of_the_last_values(values: list[float], length: int) -> None:
    level = Level(length, every=1)
    for value in values:
        level.add(value)
    assert level.median == statistics.median(values[-length:])


def test_streak_keeps_its_first_and_last_lines_and_the_one_before() -> None:
    streak = Streak()
    for number in range(1, 31):
        streak.take(number > 10, read(Row(2 * number, {"loss": 1.0}), 100 + number, number))
    assert streak.lines == (111, 112, 113, 129, 130, 110)
    assert (streak.count, streak.where) == (20, "at steps 22 to 60")
    streak.take(False, read(Row(62, {"loss": 1.0}), 131, 31))
    assert (streak.count, streak.lines) == (0, (131,))


@pytest.mark.parametrize(
    ("rewards", "is_good"),
    [
        ([0.2] * 40, False),
        ([0.2] * 20 + [0.5] * 20, True),
        ([0.95, 1.0] * 20, True),
        ([0.5] * 20 + [0.4] * 20, False),
        ([-900.0] * 20 + [-200.0] * 20, True),
        ([0.0] * 40, False),
    ],
)
def test_progress_is_a_better_reward_or_the_best_there_is(rewards: list[float], is_good: bool) -> None:
    progress = Progress(20)
    for number, reward in enumerate(rewards, start=1):
        values = {"critic/score/mean": reward, "critic/score/max": max(1.0, reward)}
        progress.add(read(Row(number, values), number, number))
    assert progress.start is not None and progress.is_good is is_good


def test_alarms_about_rows_without_steps_name_a_line(tmp_path: Path) -> None:
    """A Trainer prints an epoch and no step; "since step None" says nothing."""
    health = LiveHealth("console", tmp_path / "resources.jsonl")
    alarms = []
    for number in range(1, 60):
        norm = 50.0 if number > 30 and number % 3 == 0 else 1.0
        row = Row(None, {"loss": 1.0 / number, "grad_norm": norm}, number / 10)
        alarms += [alarm for alarm in health.row(row, number) if alarm.kind == "gradient_spikes"]
    assert "5 times since line 33, up to 50" in alarms[0].text
