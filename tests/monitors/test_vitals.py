"""When a run counts as lost and, above all, when it does not."""

from __future__ import annotations

import pytest

from monitors.logs import Line
from monitors.rules import HANG_S, in_second_half
from monitors.vitals import AWAY_S, Vitals

START = 1_000_000.0


class Life:
    """An attempt that prints on its own clock; a watch looks at it every 30 s."""

    def __init__(self) -> None:
        self.now = self.printed_at = START
        self.vitals = Vitals()
        self.told: set[str] = set()
        self.look()

    def look(self) -> None:
        self.vitals.look(self.now, self.now - START, self.printed_at)
        self.told.update(self.fatal)

    def silence(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + 30, end)
            self.look()

    def prints(self, text: str, number: int = 1) -> None:
        self.printed_at = self.now
        self.vitals.line(Line(number, text))
        self.look()

    @property
    def fatal(self) -> tuple[str, ...]:
        return tuple(self.vitals.fatal(self.now).values())


@pytest.fixture
def life() -> Life:
    return Life()


def test_slow_first_step_and_long_validations_are_no_hang(life: Life) -> None:
    life.silence(29 * 60)
    life.prints("engine is up")
    for _ in range(4):
        for _ in range(10):
            life.silence(45)
            life.prints("step")
        life.silence(25 * 60)
        life.prints("validation done")
    life.silence(35 * 60)  # beyond the limit, but this run has been silent nearly as long before
    life.prints("validation done")
    assert life.told == set()


def test_hang_is_fatal_beyond_limit_and_habit_and_taken_back_by_output(life: Life) -> None:
    for _ in range(5):
        life.silence(60)
        life.prints("step")
    life.silence(HANG_S)
    assert not life.fatal
    life.silence(1)
    (why,) = life.fatal
    assert "1801 s" in why and "1800 s" in why and "before was 60 s" in why
    life.prints("alive")
    assert not life.fatal
    life.silence(5 * HANG_S)
    assert not life.fatal
    life.silence(6 * HANG_S)
    assert len(life.fatal) == 1


def test_machine_that_slept_is_neither_a_hang_nor_a_habit(life: Life) -> None:
    life.prints("step")
    life.now += 10 * HANG_S
    life.look()
    assert not life.fatal
    life.silence(60)
    life.prints("step")
    life.silence(HANG_S + 1)
    assert len(life.fatal) == 1


def test_watch_that_comes_late_waits_far_longer_before_it_speaks_of_a_hang() -> None:
    vitals = Vitals()
    printed_at = START + 40_000
    now = printed_at + 3600

    def watched(until: float) -> list[str]:
        nonlocal now
        while now < until:
            now += AWAY_S / 2
            vitals.look(now, now - START, printed_at)
        return list(vitals.fatal(now))

    assert watched(printed_at + 3600 + 9 * HANG_S) == []
    assert watched(printed_at + 3600 + 11 * HANG_S) == ["silence"]


def test_silence_after_an_error_is_fatal(life: Life) -> None:
    life.prints("(Task pid=7) Traceback (most recent call last):", 40)
    life.prints('(Task pid=7)   File "train.py", line 3, in step', 41)
    life.prints("(Task pid=7) torch.OutOfMemoryError: CUDA out of memory", 42)
    life.prints("    at layer 3", 43)
    life.prints(" 50%|█████     | 5/10 [00:05<00:05, 1.00it/s]", 44)
    life.silence(600)
    assert not life.fatal
    life.silence(1)
    (why,) = life.fatal
    assert "601 s" in why and "line 42" in why and "torch.OutOfMemoryError" in why


@pytest.mark.parametrize("after", ["retrying with a smaller batch", "step:3 - loss:0.5"])
def test_error_that_the_training_got_over_is_not_fatal(life: Life, after: str) -> None:
    life.prints("ConnectionError: connection reset by peer")
    life.prints(after)
    life.silence(25 * 60)
    assert life.told == set()


def test_error_before_a_silence_that_this_run_is_used_to_is_not_fatal(life: Life) -> None:
    life.silence(25 * 60)
    life.prints("validation done")
    life.prints("TimeoutError: one episode of 512 was given up")
    life.silence(24 * 60)
    assert life.told == set()


@pytest.mark.parametrize(
    ("step", "total", "elapsed", "second"),
    [
        (49, 100, 9000, False),
        (50, 100, 10, True),
        (None, 100, 9000, False),
        (None, None, 4999, False),
        (7, None, 5000, True),
    ],
)
def test_second_half(step: int | None, total: int | None, elapsed: float, second: bool) -> None:
    assert in_second_half(step, total, START, START + 10_000, START + elapsed) is second
