"""Logs that are over: several runs in one, sick ones between healthy ones, and the real sample."""

from __future__ import annotations

import random
from itertools import chain

import pytest

from monitors.health import assess
from monitors.metrics import Row
from monitors.metrics.parser import parse_line
from tests.monitors.health.shapes import HEALTHY, SICK, run, trl

DIVERGED = """\
step:1 - actor/pg_loss:36.4257 - actor/grad_norm:8.0624 - actor/lr:1.0e-02
step:2 - actor/pg_loss:46.4690 - actor/grad_norm:10.7726 - actor/lr:1.0e-02
step:3 - actor/pg_loss:34.3991 - actor/grad_norm:7.3133 - actor/lr:1.0e-02
step:4 - actor/pg_loss:27.2683 - actor/grad_norm:6.6388 - actor/lr:1.0e+06
step:5 - actor/pg_loss:52957881340869250530672640.0000 - actor/grad_norm:inf - actor/lr:1.0e+06
step:6 - actor/pg_loss:24621309731194897358420032.0000 - actor/grad_norm:inf - actor/lr:1.0e+06
step:7 - actor/pg_loss:35277938442344685197328384.0000 - actor/grad_norm:inf - actor/lr:1.0e+06
step:8 - actor/pg_loss:22992886504600040269414400.0000 - actor/grad_norm:inf - actor/lr:1.0e+06
step:9 - actor/pg_loss:34439960505151290609762304.0000 - actor/grad_norm:inf - actor/lr:1.0e+06
"""
BROKEN = "{{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 5e-05, 'epoch': {}}}"


def rows_of(text: str) -> list[tuple[int, Row]]:
    parsed = [(number, parse_line(line)) for number, line in enumerate(text.splitlines(), start=1)]
    return [(number, row) for number, row in parsed if row is not None]


def test_divergence_to_huge_numbers_with_infinite_gradients() -> None:
    (found,) = assess(rows_of(DIVERGED))
    assert (found.kind, found.family, found.worthless) == ("divergence", "numerics_nan", True)
    assert found.lines == (5, 6, 7, 8, 9, 4)
    assert "actor/pg_loss" in found.text and "46.47" in found.text


def test_losses_beyond_every_measure_need_nothing_to_compare_with() -> None:
    (found,) = assess(rows_of(DIVERGED)[4:])
    assert (found.kind, found.lines, found.worthless) == ("divergence", (5, 6, 7, 8, 9), True)


def test_loss_zero_with_gradients_that_are_no_numbers() -> None:
    text = "\n".join(BROKEN.format(round(0.54 + 0.01 * number, 2)) for number in range(12))
    (found,) = assess(rows_of(text))
    assert (found.family, found.worthless) == ("numerics_nan", True)


@pytest.mark.parametrize("name", SICK)
@pytest.mark.parametrize("others", [run(800, lambda *_: {}), trl(800, lambda *_: {})], ids=["verl", "trl"])
def test_sick_run_in_the_middle_of_a_healthy_one(name: str, others: object) -> None:
    kind, _, _, make = SICK[name]
    healthy, sick = others(random.Random(1)), make(random.Random(2))  # type: ignore[operator]
    rows = [*healthy[:400], *sick, *healthy[400:]]
    found = assess(enumerate(rows, start=1))
    (alarm,) = (alarm for alarm in found if alarm.kind == kind)
    assert not alarm.passed and all(400 <= line <= 400 + len(sick) for line in alarm.lines)


def test_healthy_runs_one_after_another_are_healthy() -> None:
    rows = chain.from_iterable(
        make(random.Random(3)) for name, make in HEALTHY.items() if name not in ("verl", "trl")
    )
    assert assess(enumerate(rows, start=1)) == []


def test_what_passed_before_the_end_is_marked() -> None:
    losses = [0.5] * 20 + [float("nan")] * 5 + [0.5] * 20
    (found,) = assess(enumerate((Row(step, {"loss": loss}) for step, loss in enumerate(losses)), start=1))
    assert found.passed and found.lines[0] == 21


def test_ranks_that_print_out_of_turn_are_one_run() -> None:
    steps = [step + lag for step in range(30, 130) for lag in (0, -1, 0, 1)]
    rows = [Row(step, {"reward": 0.0, "loss": 0.1 * (number % 7)}) for number, step in enumerate(steps)]
    (found,) = assess(enumerate(rows, start=1))
    assert found.kind == "reward_stuck" and found.data["rows"] == len(rows)


def test_no_rows() -> None:
    assert assess([]) == []
