"""When rows count as having stopped, on a faked clock that somebody looks at every 30 s."""

from __future__ import annotations

from monitors.health import Alarm
from monitors.health.speed import STALL_LEAST_S, Stall

LOOK_S = 30.0


class Life:
    """A run that writes rows, and a watch that looks."""

    def __init__(self) -> None:
        self.now, self.rows = 1_000_000.0, 0
        self.stall = Stall()
        self.told: list[Alarm] = []
        self.look()

    def look(self) -> None:
        alarm = self.stall.look(self.now, self.rows)
        self.told += [alarm] if alarm else []

    def steps(self, count: int, seconds: float) -> None:
        for _ in range(count):
            self.silence(seconds)
            self.rows += 1
            self.look()

    def silence(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + LOOK_S, end)
            self.look()


def test_rows_that_stop_are_told_after_thirty_of_the_runs_own_steps() -> None:
    life = Life()
    life.steps(10, 60)
    life.silence(30 * 60)
    assert life.told == []
    life.silence(1)
    assert life.told[0].kind == "stall" and life.told[0].family == "hang_no_output"
    assert "no metric row for 1800 s; they came every 60 s" in life.told[0].text


def test_fast_steps_have_ten_minutes() -> None:
    life = Life()
    life.steps(100, 1)
    life.silence(STALL_LEAST_S)
    assert life.told == []
    life.silence(1)
    assert len(life.told) == 1


def test_long_validations_are_no_stall_once_one_was_seen() -> None:
    life = Life()
    life.steps(20, 45)
    life.silence(20 * 60)
    life.steps(20, 45)
    life.silence(90 * 60)
    assert life.told == []


def test_few_rows_and_a_machine_that_slept_say_nothing() -> None:
    life = Life()
    life.steps(4, 10)
    life.silence(5 * 3600)
    assert life.told == []
    life.steps(10, 10)
    life.now += 12 * 3600
    life.look()
    life.steps(10, 10)
    assert life.told == []
