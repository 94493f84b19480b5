"""Sentences about a comparison: no stronger than its findings, and with the numbers of the tables."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.results.comparing.types import (
    Comparison,
    Contrast,
    Estimate,
    Interaction,
    Key,
    KeyEffect,
    Point,
    PointResult,
)
from harness.results.sweeps import wording
from harness.results.sweeps.tables import build_page
from harness.results.sweeps.wording import Digits, cautions, findings
from tests.harness.results.comparisons import KL, LR, REPEAT, comparison

TWO = comparison((REPEAT,), 2)
TESTED = (0.12, 0.05, 0.19, 0.001, 0.002, 4, 2.5, 0.08, 4, (3, 3))
HIGHER = Contrast("arg:--lr", "3e-6", "1e-6", "higher", *TESTED)
LOWER = replace(HIGHER, level="1e-4", finding="lower", difference=-0.2, low=-0.3, high=-0.1, detectable=0.09)
NONE = replace(
    HIGHER, level="1e-5", finding="no detectable difference", difference=0.01, low=-0.05, high=0.07
)


def page(made: Comparison) -> dict[str, Any]:
    return build_page(made, Path("/x"))


def about(*contrasts: Contrast, matters: bool | None = True, **more: object) -> Comparison:
    effect = KeyEffect("arg:--lr", matters, 0.01, 0.02, contrasts, **more)  # type: ignore[arg-type]
    return replace(comparison((LR,), 2), keys=(effect,))


def test_a_level_is_higher_only_where_its_contrast_says_so() -> None:
    higher = "lr matters: 3e-6 is higher (better) than 1e-6 by +0.120 [0.050, 0.190]"
    assert findings(about(HIGHER, NONE)).found == (f"{higher}.",)
    lower = "1e-4 is lower (worse) than 1e-6 by -0.200 [-0.300, -0.100]"
    assert findings(about(HIGHER, LOWER)).found == (f"{higher}; {lower}.",)
    both = "3e-6 by +0.120 [0.050, 0.190], 1e-5 by +0.100 [0.050, 0.190]"
    other = replace(HIGHER, level="1e-5", difference=0.1)
    assert findings(about(HIGHER, other)).found == (f"lr matters: higher (better) than 1e-6 are {both}.",)


def test_nothing_found_says_what_would_have_been() -> None:
    sentence = "lr: no detectable difference (1e-5 against 1e-6: +0.010 [-0.050, 0.070]; these seeds would "
    assert findings(about(NONE, matters=False)).found == (sentence + "have found a difference of ±0.080).",)
    wider = replace(NONE, level="1e-4", difference=-0.02, detectable=0.11)
    (told,) = findings(about(NONE, wider, matters=False)).found
    assert "1e-4 against 1e-6: -0.020" in told and "the largest" in told and "±0.110" in told
    assert findings(about(NONE, matters=False)).verdict == "No detectable difference"


def together(made: Comparison) -> Comparison:
    """The same, but what each key does depends on the others."""
    names = [key.name for key in made.study.keys]
    return replace(made, interactions=(Interaction((names[0], names[1]), 1e-19, 3e-19, True),))


def test_keys_that_act_together_are_never_nothing() -> None:
    made = together(comparison((KL, REPEAT), 3, effect=0.0))
    depends = "what kl_loss_coef does depends on num_repeat"
    assert findings(made).verdict == f"kl_loss_coef and num_repeat matter together: {depends}"
    told = findings(made).found
    assert told[0].startswith("kl_loss_coef, on average over num_repeat: no detectable difference (")
    assert not any("these seeds would have found" in sentence for sentence in told)
    (warned,) = cautions(made)
    assert warned.title == "What one key does depends on another" and "p < 0.001" in warned.lines[0]
    view = page(made)
    assert view["tone"] == "" and all("what it does depends on" in key["verdict"] for key in view["varied"])
    matters = findings(together(comparison((KL, REPEAT), 3))).found[0]
    assert matters.startswith("num_repeat matters; on average over kl_loss_coef: 8 is higher")


def test_what_was_not_tested_says_why() -> None:
    untested = Contrast("arg:--lr", "3e-6", "1e-6", "not tested", 0.1, n=(1, 1), why_not="one seed")
    nothing = about(untested, matters=None, why_not="one seed")
    assert findings(nothing).found == ("lr: not tested (one seed).",)
    assert findings(nothing).verdict == "Nothing was tested"
    assert page(nothing)["tone"] == ""
    assert page(about(NONE, matters=False))["tone"] == "good"
    with_tasks = about(replace(untested, over_tasks=(-0.02, 0.22, 64)), matters=None, why_not="one seed")
    (table,) = page(with_tasks)["varied"]
    (row,) = table["rows"]
    assert row["remark"] == ("one seed; over the same 64 tasks [-0.020, 0.220]: other tasks, not other seeds")
    assert (row["finding"], row["p"]) == ("not tested", "—")
    assert table["verdict"].startswith("not tested (one seed)")


def test_points_are_told_by_what_differs_and_never_mixed_up() -> None:
    made = comparison((KL, REPEAT), 1)
    labels = list(wording.point_labels(made).values())
    assert labels[:3] == ["baseline", "num_repeat=8", "kl_loss_coef=0.01"]
    levels = made.points[0].point.levels
    twins = tuple(PointResult(Point(name, levels), Estimate(1, 0.5), 1) for name in ("run-a", "run-b"))
    given_runs = replace(made, points=twins)
    assert wording.point_labels(given_runs) == {"run-a": "run-a", "run-b": "run-b"}
    assert wording.short_names(given_runs) == {"run-a": "run-a", "run-b": "run-b"}
    named = tuple(
        replace(one, point=replace(one.point, name=f"{one.point.name}-kl_loss_coef-{at}"))
        for at, one in enumerate(made.points)
    )
    shown = wording.short_names(replace(made, points=named))
    assert list(shown.values()) == [f"p{number:02d}" for number in range(1, 7)]


def test_numbers_of_one_metric_have_the_same_decimals() -> None:
    rates = comparison((REPEAT,), 3)
    assert Digits.of(rates) == Digits(3, (0.0, 1.0))
    assert Digits(3).difference(-0.0504) == "-0.050" and Digits(3).interval(None, 1.0) == ""
    assert Digits(3).value(float("nan")) == "—" and Digits(3).difference(-0.0004) == "+0.000"
    loss = replace(rates, metric="actor/kl_loss")

    def scaled(factor: float) -> Comparison:
        runs = tuple(replace(run, value=(run.value or 0.0) * factor) for run in loss.runs)
        return replace(loss, runs=runs, points=())

    shown = [Digits.of(scaled(factor)).value(0.71 * factor) for factor in (1e-3, 1.0, 1e3, 1e9)]
    assert shown == ["0.0007100", "0.7100", "710.0", "7.100e+08"]


def with_mean(metric: str, mean: float, sd: float, low: float, high: float) -> Comparison:
    runs = tuple(replace(run, value=mean) for run in TWO.runs)
    point = replace(TWO.points[0], value=Estimate(2, mean, sd, low, high))
    return replace(TWO, metric=metric, runs=runs, points=(point,))


@pytest.mark.parametrize("metric", ["val/task_pass_rate@1", "eval_error_rate", "learning_rate"])
def test_small_rates_and_what_only_sounds_like_one_show_their_spread(metric: str) -> None:
    digits = Digits.of(with_mean(metric, 0.0021, 0.00002, 0.0020, 0.0022))
    assert digits.difference(0.0003) in ("+0.00030", "+0.000300")


def test_intervals_of_rates_end_where_rates_end() -> None:
    made = with_mean("val/task_pass_rate@1", 0.987, 0.015, 0.949, 1.025)
    percent = with_mean("accuracy", 71.2, 0.5, 70.1, 72.3)
    shown = [page(one)["points"][0]["interval"] for one in (made, replace(made, metric="loss"), percent)]
    assert shown == ["[0.949, 1.000]", "[0.9490, 1.0250]", "[70.10, 72.30]"]


def test_a_best_mean_that_several_points_share_is_no_ones() -> None:
    made = comparison((KL,), 3)
    points = tuple(replace(point, value=made.points[0].value) for point in made.points)
    made = replace(made, points=points, best=points[0].point.name)
    assert findings(made).best.endswith("shared by 3 points (p01, p02, p03)")
    assert all("highest mean" in row["marks"] for row in page(made)["points"])


@given(st.floats(min_value=1e-6, max_value=1e6), st.floats(min_value=1e-4, max_value=0.2))
def test_the_spread_over_seeds_can_be_seen(level: float, spread: float) -> None:
    runs = tuple(replace(run, value=level) for run in TWO.runs)
    point = replace(TWO.points[0], value=Estimate(2, level, level * spread, level, level))
    digits = Digits.of(replace(TWO, metric="loss", runs=runs, points=(point,)))
    if digits.decimals is not None:
        assert digits.value(level) != digits.value(level * (1 + 2 * spread))


def test_single_seeds_among_others_are_named() -> None:
    made = comparison((REPEAT,), 2, Path("/x"), lost=(2,))
    (single, missing) = cautions(made)
    assert single.title == "1 point with a single seed" and made.points[1].point.name in single.lines[0]
    assert missing.lines == made.missing


def test_the_best_value_at_the_edge_of_what_was_tried_is_said() -> None:
    made = comparison((LR,), 3)
    assert "; its lr, 1e-4, is the largest tried: a better one may lie beyond" in findings(made).best
    middle = replace(made, best=made.points[2].point.name)
    assert "tried" not in findings(middle).best and "tried" not in findings(comparison((REPEAT,), 3)).best
    assert "tried" not in findings(comparison((Key("a", ("x", "y", "z"), "x"),), 3)).best


def test_headline_and_tests_have_one_source() -> None:
    confounded = replace(HIGHER, finding="confounded", p=None, p_adjusted=None, why_not="8 steps and 40")
    both = about(confounded, LOWER)
    assert findings(both).verdict == "A detectable difference: lr; confounded: lr"
    told = findings(about(replace(HIGHER, beside="GPU (A against B)")))
    alone = "A detectable difference: lr; not attributable to that alone: GPU (A against B) differs too"
    assert told.verdict == alone
    assert told.found[0].startswith("lr, or what else differs, matters: 3e-6 is higher")


def test_a_comparison_without_a_metric_says_nothing_about_which_way_is_better() -> None:
    made = comparison((REPEAT,), 2, lost=(0, 1, 2, 3))
    assert wording.BETTER[None].startswith("whether higher or lower is better is not known")
    assert findings(replace(made, metric="")).verdict == "Nothing can be compared: no run counts"
