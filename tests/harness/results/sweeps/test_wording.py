"""Sentences about a comparison: no stronger than its findings, and with the numbers of the tables."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.results.comparing.types import Comparison, Contrast, Estimate, Key, KeyEffect, Point, PointResult
from harness.results.sweeps import wording as wording
from harness.results.sweeps.tables import key_tables
from harness.results.sweeps.wording import Digits
from tests.harness.results.comparisons import KL, LR, REPEAT, comparison

TWO = comparison((REPEAT,), 2)
HIGHER = Contrast(
    "arg:--lr", "3e-6", "1e-6", "higher", 0.12, 0.05, 0.19, 0.001, 0.002, 4, 2.5, 0.08, 4, (3, 3)
)
LOWER = replace(HIGHER, level="1e-4", finding="lower", difference=-0.2, low=-0.3, high=-0.1, detectable=0.09)
NONE = replace(
    HIGHER, level="1e-5", finding="no detectable difference", difference=0.01, low=-0.05, high=0.07
)


def about(*contrasts: Contrast, matters: bool | None = True, **more: object) -> Comparison:
    effect = KeyEffect("arg:--lr", matters, 0.01, 0.02, 0.4, contrasts, **more)  # type: ignore[arg-type]
    return replace(comparison((LR,), 2), keys=(effect,))


def test_a_level_is_higher_only_where_its_contrast_says_so() -> None:
    assert wording.found(about(HIGHER, NONE)) == (
        "lr matters: 3e-6 is higher (better) than 1e-6 by +0.120 [0.050, 0.190].",
    )
    assert wording.found(about(HIGHER, LOWER)) == (
        "lr matters: 3e-6 is higher (better) than 1e-6 by +0.120 [0.050, 0.190]; "
        "1e-4 is lower (worse) than 1e-6 by −0.200 [−0.300, −0.100].",
    )
    assert wording.found(about(HIGHER, replace(HIGHER, level="1e-5", difference=0.1))) == (
        "lr matters: higher (better) than 1e-6 are 3e-6 by +0.120 [0.050, 0.190], "
        "1e-5 by +0.100 [0.050, 0.190].",
    )


def test_nothing_found_says_what_would_have_been() -> None:
    sentence = "lr: no detectable difference (1e-5 against 1e-6: +0.010 [−0.050, 0.070]; these seeds would "
    assert wording.found(about(NONE, matters=False)) == (sentence + "have found a difference of ±0.080).",)
    wider = replace(NONE, level="1e-4", difference=-0.02, detectable=0.11)
    (told,) = wording.found(about(NONE, wider, matters=False))
    assert "1e-4 against 1e-6: −0.020" in told and "the largest" in told and "±0.110" in told
    assert wording.verdict(about(NONE, matters=False)) == "No detectable difference"


def test_levels_that_differ_only_taken_together_are_no_difference_of_any_one() -> None:
    (told,) = wording.found(about(NONE))
    assert told == (
        "lr matters: its levels differ taken together (F test, adjusted p = 0.020), "
        "but none differs detectably from the baseline 1e-6."
    )


def test_what_was_not_tested_says_why() -> None:
    untested = Contrast("arg:--lr", "3e-6", "1e-6", "not tested", 0.1, n=(1, 1), why_not="one seed")
    assert wording.found(about(untested, matters=None)) == ("lr: not tested (one seed).",)
    assert wording.verdict(about(untested, matters=None)) == "Nothing was tested"
    with_tasks = about(replace(untested, over_tasks=(-0.02, 0.22, 64)), matters=None, why_not="one seed")
    ((table,), digits) = (key_tables(with_tasks, Digits(3)), Digits(3))
    assert table.rows[0].note == (
        f"one seed; over the same 64 tasks {digits.interval(-0.02, 0.22)}: other tasks, not other seeds"
    )
    assert (table.rows[0].finding, table.rows[0].p, table.verdict) == (
        *("not tested", "—"),
        "all levels together: not tested (one seed)",
    )


def test_keys_with_a_difference_come_first() -> None:
    made = comparison((KL, REPEAT), 3)
    assert [sentence.partition(" ")[0] for sentence in wording.found(made)] == ["num_repeat", "kl_loss_coef:"]


def test_keys_that_end_alike_keep_their_whole_names() -> None:
    made = comparison((Key("a.lr", (1, 2), 1), Key("b.lr", (1, 2), 1)), 1)
    assert list(wording.key_labels(made).values()) == ["a.lr", "b.lr"]
    assert wording.key_labels(comparison((LR, KL), 1)) == {LR.name: "lr", KL.name: "kl_loss_coef"}


def test_points_are_told_by_what_differs_and_never_mixed_up() -> None:
    made = comparison((KL, REPEAT), 1)
    assert list(wording.point_labels(made).values())[:3] == [
        *("baseline", "num_repeat 8", "kl_loss_coef 0.01"),
    ]
    twins = tuple(PointResult(Point(name, {}), Estimate(1, 0.5), 1) for name in ("run-a", "run-b"))
    given_runs = replace(made, points=twins)
    assert wording.point_labels(given_runs) == {"run-a": "run-a", "run-b": "run-b"}
    assert wording.short_names(given_runs) == {"run-a": "run-a", "run-b": "run-b"}
    assert list(wording.short_names(made).values()) == [f"p{number:02d}" for number in range(1, 7)]


def test_numbers_of_one_metric_have_the_same_decimals() -> None:
    rates = comparison((REPEAT,), 3)
    assert Digits.of(rates) == Digits(3)
    assert Digits(3).difference(-0.0504) == "−0.050" and Digits(3).interval(None, 1.0) == ""
    assert Digits(3).value(float("nan")) == "—"
    loss = replace(rates, metric="actor/kl_loss")

    def scaled(factor: float) -> Comparison:
        runs = tuple(replace(run, value=(run.value or 0.0) * factor) for run in loss.runs)
        return replace(loss, runs=runs, points=())

    shown = [Digits.of(scaled(factor)).value(0.71 * factor) for factor in (1e-3, 1.0, 1e3, 1e9)]
    assert shown == ["0.0007100", "0.7100", "710.0", "7.100e+08"]


@given(st.floats(min_value=1e-6, max_value=1e6), st.floats(min_value=1e-4, max_value=0.2))
def test_the_spread_over_seeds_can_be_seen(level: float, spread: float) -> None:
    runs = tuple(replace(run, value=level) for run in TWO.runs)
    point = replace(TWO.points[0], value=Estimate(2, level, level * spread, level, level))
    digits = Digits.of(replace(TWO, metric="loss", runs=runs, points=(point,)))
    if digits.decimals is not None:
        assert digits.value(level) != digits.value(level * (1 + 2 * spread))


@pytest.mark.parametrize(
    ("level", "number"),
    [(1, 1.0), ("1e-4", 1e-4), (True, None), (None, None), ("adamw", None), ("inf", None), (0.5, 0.5)],
)
def test_levels_that_are_numbers(level: str | float | None, number: float | None) -> None:
    assert wording.as_number(level) == number


def test_single_seeds_among_others_are_named() -> None:
    made = comparison((REPEAT,), 2, Path("/x"), lost=(1,))
    (single, missing) = wording.warnings(made, not_counted=("p09-s0: cancelled",))
    assert single.title == "1 point with a single seed" and made.points[1].point.name in single.lines[0]
    assert missing.lines[-1] == "p09-s0: cancelled"
