"""When a run counts as lost and, above all, when it does not."""

from __future__ import annotations

import math

import pytest

from monitors.logs import Line
from monitors.metrics import Row
from monitors.rules import broken_values, in_second_half
from monitors.vitals import AWAY_S, Vitals

START = 1_000_000.0
NAN, INF = math.nan, math.inf
HANG_S = 1800.0


class Life:
    """An attempt that prints and writes rows on its own clock; a watch looks at it every 30 s."""

    def __init__(self) -> None:
        self.now = self.printed_at = START
        self.vitals = Vitals(HANG_S)
        self.told: set[str] = set()
        self.look()

    def look(self) -> None:
        self.vitals.look(self.now, START, self.printed_at)
        self.told.update(self.vitals.fatal(self.now))

    def silence(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + 30, end)
            self.look()

    def prints(self, text: str, number: int = 1) -> None:
        self.printed_at = self.now
        self.vitals.line(Line(number, text))
        self.look()

    def row(self, step: int, **values: float) -> None:
        self.printed_at = self.now
        self.vitals.row(Row(step, {name.replace("__", "/"): value for name, value in values.items()}), "x")
        self.look()

    @property
    def fatal(self) -> tuple[str, ...]:
        return self.vitals.fatal(self.now)


@pytest.fixture
def life() -> Life:
    return Life()


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
def test_healthy_losses_give_no_alarm(life: Life, losses: list[float]) -> None:
    for step, loss in enumerate(losses, start=1):
        life.silence(60)
        life.row(step, actor__loss=loss, critic__rewards__mean=0.0)
    assert life.told == set()


def test_three_rows_without_a_finite_loss_are_fatal_until_one_is_finite(life: Life) -> None:
    for step in (7, 8, 9):
        assert life.fatal == ()
        life.row(step, actor__pg_loss=NAN, actor__lr=0.1)
    (why,) = life.fatal
    assert "last 3 metric rows" in why and "actor/pg_loss is nan at step 7" in why and "step 9" in why
    life.row(10, actor__pg_loss=0.5)
    assert life.fatal == ()


def test_rows_of_validations_and_timings_neither_count_nor_clear(life: Life) -> None:
    for step in (1, 2):
        life.row(step, loss=NAN)
        life.row(step, val__reward=NAN)
        life.row(step, timing_s__step=3.0)
    assert life.fatal == ()
    life.row(3, loss=NAN)
    assert len(life.fatal) == 1


def test_infinite_gradient_norms_of_a_loss_scale_coming_down_are_healthy_but_not_for_ever(life: Life) -> None:
    for step in range(1, 17):
        life.row(step, loss=0.5, grad_norm=INF if step % 2 else NAN)
    assert life.fatal == ()
    for step in range(17, 21):
        life.row(step, loss=0.5, grad_norm=INF)
    assert "grad_norm is inf at step 1" in life.fatal[0]


def test_reward_of_one_part_may_not_apply_but_the_runs_own_must_be_a_number() -> None:
    assert broken_values(Row(1, {"rewards/format/mean": NAN, "reward_std": NAN, "loss": 0.1})) == {}
    assert broken_values(Row(1, {"critic/rewards/mean": NAN, "loss": 0.1})) == {"critic/rewards/mean": NAN}
    assert broken_values(Row(1, {"timing_s/step": NAN})) is None


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
    assert life.fatal == ()
    life.silence(1)
    (why,) = life.fatal
    assert "1801 s" in why and "1800 s" in why and "before was 60 s" in why
    life.prints("alive")
    assert life.fatal == ()
    life.silence(5 * HANG_S)
    assert life.fatal == ()
    life.silence(6 * HANG_S)
    assert len(life.fatal) == 1


def test_machine_that_slept_is_neither_a_hang_nor_a_habit(life: Life) -> None:
    life.prints("step")
    life.now += 10 * HANG_S
    life.look()
    assert life.fatal == ()
    life.silence(60)
    life.prints("step")
    life.silence(HANG_S + 1)
    assert len(life.fatal) == 1


def test_watch_that_comes_late_waits_far_longer_before_it_speaks_of_a_hang() -> None:
    vitals = Vitals(HANG_S)
    printed_at = START + 40_000
    now = printed_at + 3600

    def watched(until: float) -> tuple[str, ...]:
        nonlocal now
        while now < until:
            now += AWAY_S / 2
            vitals.look(now, START, printed_at)
        return vitals.fatal(now)

    assert watched(printed_at + 3600 + 9 * HANG_S) == ()
    assert len(watched(printed_at + 3600 + 11 * HANG_S)) == 1


def test_silence_after_an_error_is_fatal(life: Life) -> None:
    life.prints("(Task pid=7) Traceback (most recent call last):", 40)
    life.prints('(Task pid=7)   File "train.py", line 3, in step', 41)
    life.prints("(Task pid=7) torch.OutOfMemoryError: CUDA out of memory", 42)
    life.prints("    at layer 3", 43)
    life.prints(" 50%|█████     | 5/10 [00:05<00:05, 1.00it/s]", 44)
    life.silence(600)
    assert life.fatal == ()
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
