"""Contrasts and key effects against statsmodels' formula models and anova tables, and scipy."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats as scipy_stats
from statsmodels.stats.anova import anova_lm

from harness.results.compare import compare_results
from harness.results.comparing.types import Comparison, Contrast, KeyEffect, RunResult, Study
from tests.harness.results.comparing.made import KL, LR, combinations, grid, result, tasks

Values = dict[tuple, list[float]]


def drawn(seed: int, kls: int = 3, lrs: int = 4, n: int = 3, effect: float = 0.05) -> Values:
    rng = np.random.default_rng(seed)
    return {
        (kl, lr): [float(0.5 + effect * kl + rng.normal(0, 0.03)) for _ in range(n)]
        for kl, lr in combinations(tuple(range(kls)), tuple(range(lrs)))
    }


def table(values: Values) -> pd.DataFrame:
    rows = [(kl, lr, value) for (kl, lr), seeds in values.items() for value in seeds]
    return pd.DataFrame(rows, columns=["kl", "lr", "y"])


def compared(values: Values, **changes: object) -> Comparison:
    return compare_results(*grid(values, **changes))


def effect(comparison: Comparison, key: str) -> KeyEffect:
    return next(one for one in comparison.keys if one.key == key)


def contrast(comparison: Comparison, key: str, level: object) -> Contrast:
    return next(one for one in effect(comparison, key).contrasts if one.level == level)


def anova(values: Values) -> pd.DataFrame:
    return anova_lm(smf.ols("y ~ C(kl, Sum) * C(lr, Sum)", table(values)).fit(), typ=3)


@pytest.mark.parametrize("is_balanced", [True, False])
def test_key_effects_of_a_grid_are_the_type_3_anova(is_balanced: bool) -> None:
    values = drawn(1)
    if not is_balanced:
        values[1, 2].pop()
        values[2, 0].append(0.61)
    found, theirs = compared(values), anova(values)
    for key, row in ((KL, "C(kl, Sum)"), (LR, "C(lr, Sum)")):
        ours = effect(found, key)
        assert ours.p == pytest.approx(theirs.loc[row, "PR(>F)"])
        squares = theirs.loc[row, "sum_sq"]
        assert ours.share == pytest.approx(squares / (squares + theirs.loc["Residual", "sum_sq"]))


def test_interactions_are_the_type_3_anova() -> None:
    values = drawn(2)
    values[2, 3] = [value + 0.2 for value in values[2, 3]]
    p = anova(values).loc["C(kl, Sum):C(lr, Sum)", "PR(>F)"]
    told = [note for note in compared(values).notes if "interaction" in note]
    assert len(told) == 1 and f"p = {p:.2g}" in told[0]
    assert told[0].startswith(f"what {KL} does depends on {LR}")


def test_a_difference_in_a_grid_averages_over_the_other_key_with_equal_weights() -> None:
    values = drawn(3)
    values[1, 0] += [0.9, 0.9]  # more seeds of one combination do not give it more weight
    found = contrast(compared(values), KL, 1)
    cells = [np.array(values[kl, lr]) for kl in (0, 1) for lr in range(4)]
    each = [np.mean(values[1, lr]) - np.mean(values[0, lr]) for lr in range(4)]
    degrees = sum(len(cell) - 1 for cell in cells)
    variance = sum(((cell - cell.mean()) ** 2).sum() for cell in cells) / degrees
    error = np.sqrt(variance * sum(1 / len(cell) for cell in cells) / 16)
    assert found.difference == pytest.approx(np.mean(each))
    assert found.degrees == degrees
    assert found.p == pytest.approx(2 * scipy_stats.t.sf(abs(np.mean(each)) / error, degrees))
    half = scipy_stats.t.ppf(0.975, degrees) * error
    assert (found.low, found.high) == pytest.approx((np.mean(each) - half, np.mean(each) + half))
    assert found.n == (14, 12)


def test_one_key_is_tested_point_against_point() -> None:
    values = {(0,): [0.5, 0.52, 0.49], (1,): [0.61, 0.64, 0.6], (2,): [0.5, 0.55, 0.47]}
    found = compared(values, design="one-at-a-time")
    p_values = [scipy_stats.ttest_ind(values[level,], values[0,]).pvalue for level in (1, 2)]
    assert [one.p for one in found.keys[0].contrasts] == pytest.approx(p_values)
    assert [one.p_adjusted for one in found.keys[0].contrasts] == pytest.approx(
        [2 * p_values[0], p_values[1]]
    )
    assert [one.finding for one in found.keys[0].contrasts] == ["higher", "no detectable difference"]
    assert found.keys[0].p == pytest.approx(scipy_stats.f_oneway(*values.values()).pvalue)


def test_in_one_at_a_time_the_other_key_does_not_mix_in() -> None:
    values = {(0, 0): [0.5, 0.52], (1, 0): [0.6, 0.64], (0, 1): [0.2, 0.25]}
    found = compared(values, design="one-at-a-time")
    assert contrast(found, KL, 1).points == (("p02",), ("p01",))
    assert contrast(found, LR, 1).finding == "lower"


def test_a_combination_that_is_missing_on_one_side_is_left_out_on_both() -> None:
    values = drawn(4, kls=2, lrs=3)
    study, results = grid(values)
    results = [
        result(one.run.name, one.run.point, one.run.seed or 0, None, outcome="failed", why_not="failed: OOM")
        if one.run.point == "p05"
        else one
        for one in results
    ]
    found = compare_results(study, results)
    one = contrast(found, KL, 1)
    assert one.points == (("p04", "p06"), ("p01", "p03"))
    assert one.difference == pytest.approx(
        np.mean([np.mean(values[1, lr]) - np.mean(values[0, lr]) for lr in (0, 2)])
    )
    assert found.missing == ("p05-s0: failed: OOM", "p05-s1: failed: OOM", "p05-s2: failed: OOM")


def test_a_random_design_is_the_additive_model_of_statsmodels() -> None:
    values = {place: seeds for place, seeds in drawn(6).items() if place not in ((0, 3), (1, 1), (2, 2))}
    found = compared(values, design="random")
    model = smf.ols("y ~ C(kl) + C(lr)", table(values)).fit()
    for key, name, level in ((KL, "C(kl)[T.1]", 1), (KL, "C(kl)[T.2]", 2), (LR, "C(lr)[T.3]", 3)):
        ours = contrast(found, key, level)
        assert ours.difference == pytest.approx(model.params[name])
        assert ours.p == pytest.approx(model.pvalues[name])
        assert (ours.low, ours.high) == pytest.approx(tuple(model.conf_int().loc[name]))
        assert ours.degrees == model.df_resid
    theirs = anova_lm(model, typ=2)
    assert effect(found, LR).p == pytest.approx(theirs.loc["C(lr)", "PR(>F)"])


def test_a_random_design_does_not_tell_apart_what_it_did_not_try_apart() -> None:
    values = {(0, 0): [0.5, 0.52], (1, 1): [0.6, 0.64], (0, 2): [0.5, 0.51]}
    found = compared(values, design="random")
    one = contrast(found, KL, 1)
    assert (one.finding, one.difference) == ("not tested", None)
    assert "do not tell this level from other keys" in one.why_not
    assert contrast(found, LR, 2).finding != "not tested"


def test_a_random_design_whose_keys_do_not_add_up_is_not_tested() -> None:
    values = drawn(7, kls=2, lrs=2, effect=0.0)
    values[1, 1] = [value + 0.5 for value in values[1, 1]]
    found = compared(values, design="random")
    assert all("do not add up" in one.why_not for key in found.keys for one in key.contrasts)
    assert [key.matters for key in found.keys] == [None, None]


# --- what cannot be tested ----------------------------------------------------------------------------------


def test_with_one_seed_nothing_is_found_and_the_tasks_tell_only_of_tasks() -> None:
    before, after = {"a": 0.0, "b": 0.25, "c": 0.5}, {"b": 0.5, "c": 1.0, "a": 0.75, "d": 1.0}
    study, _ = grid({(0,): [0.25], (1,): [0.75]})
    rated = zip(study.runs, (before, after), strict=True)
    results = [result(r.name, r.point, 0, float(np.mean(list(t.values()))), tasks=tasks(t)) for r, t in rated]
    found = compare_results(study, results)
    one = found.keys[0].contrasts[0]
    theirs = scipy_stats.ttest_1samp([0.75, 0.25, 0.5], 0).confidence_interval()
    assert (one.finding, one.p, one.low) == ("not tested", None, None)
    assert "one seed" in one.why_not
    assert one.over_tasks == pytest.approx((theirs.low, 1.0, 3))  # a rate rises by no more than 1
    assert one.difference == pytest.approx(0.5)  # over the three tasks that both have
    assert found.is_single_seed
    assert any("over the 3 tasks" in note for note in found.notes)


def test_one_seed_against_three_is_not_tested() -> None:
    found = compared({(0,): [0.5, 0.52, 0.49], (1,): [0.9]})
    assert found.keys[0].contrasts[0].finding == "not tested"
    assert any("p02" in note and "nothing can be said" in note for note in found.notes)


def test_single_runs_test_keys_in_an_additive_model_and_say_so() -> None:
    values = drawn(8, n=1, effect=0.2)
    found = compared(values)
    theirs = anova_lm(smf.ols("y ~ C(kl) + C(lr)", table(values)).fit(), typ=2)
    assert effect(found, KL).p == pytest.approx(theirs.loc["C(kl)", "PR(>F)"])
    assert effect(found, KL).matters is True
    assert all(one.finding == "not tested" for key in found.keys for one in key.contrasts)
    assert any("with one run per point" in note for note in found.notes)


def test_seeds_that_change_nothing_are_noticed_and_nothing_is_tested() -> None:
    found = compared({(0,): [0.53] * 3, (1,): [0.61] * 3})
    one = found.keys[0].contrasts[0]
    assert (one.finding, one.p) == ("not tested", None)
    assert one.difference == pytest.approx(0.08)
    assert any("is the seed used at all?" in note for note in found.notes)
    assert found.keys[0].matters is None


def test_values_at_the_ceiling_are_said() -> None:
    found = compared({(0,): [1.0] * 3, (1,): [1.0] * 3})
    assert found.keys[0].contrasts[0].finding == "not tested"
    assert any("p01, p02 are at 1" in note for note in found.notes)


def test_diverged_runs_are_missing_by_name() -> None:
    study, results = grid({(0,): [0.5, 0.6, 0.55], (1,): [0.7, float("nan"), 0.8]})
    found = compare_results(study, results)
    assert found.missing == ("p02-s1: diverged: NaN or infinite, first at step 20",)
    assert found.points[1].value is not None and found.points[1].value.n == 2
    assert any(note.startswith("p02: 1 of 3 runs do not count") for note in found.notes)


def test_no_run_at_all_that_counts_is_still_a_comparison() -> None:
    study, results = grid({(0,): [0.5], (1,): [0.6]})
    lost: list[RunResult] = [
        result(one.run.name, one.run.point, 0, None, outcome="failed", why_not="failed: x") for one in results
    ]
    for design in ("grid", "random", "one-at-a-time"):
        found = compare_results(Study(**{**vars(study), "design": design}), lost)
        assert found.best is None and found.threshold is None and len(found.missing) == 2
        assert all(one.finding == "not tested" and one.why_not for key in found.keys for one in key.contrasts)


def test_a_wide_interval_that_holm_takes_back_is_explained() -> None:
    values = {(level,): [0.5, 0.52, 0.49] for level in range(6)} | {(9,): [0.54, 0.56, 0.53]}
    found = compared(values, design="one-at-a-time")
    one = contrast(found, KL, 9)
    assert one.p is not None and one.p < 0.05 and one.low is not None and one.low > 0
    assert one.finding == "no detectable difference"
    assert any(note.startswith(f"{KL} 9: the 95 % interval") for note in found.notes)
