"""Keys, interactions and the family of all tests against statsmodels' anova tables and simulation."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from statsmodels.stats.anova import anova_lm
from statsmodels.stats.multitest import multipletests

from harness.results.comparing.types import Expectation
from tests.harness.results.comparing.made import KL, LR, Values, combinations, compared, drawn, table


def anova(values: Values) -> pd.DataFrame:
    return anova_lm(smf.ols("y ~ C(kl, Sum) * C(lr, Sum)", table(values)).fit(), typ=3)


@pytest.mark.parametrize("is_balanced", [True, False])
def test_the_share_of_a_key_in_a_grid_is_that_of_the_type_3_anova(is_balanced: bool) -> None:
    values = drawn(1)
    if not is_balanced:
        values[1, 2].pop()
        values[2, 0].append(0.61)
    found, theirs = compared(values), anova(values)
    for ours, row in zip(found.keys, ("C(kl, Sum)", "C(lr, Sum)"), strict=True):
        squares = theirs.loc[row, "sum_sq"]
        assert ours.share == pytest.approx(squares / (squares + theirs.loc["Residual", "sum_sq"]))


def test_an_interaction_of_two_levels_each_is_that_of_the_anova() -> None:
    found = compared(values := drawn(2, kls=2, lrs=2))
    (pair,) = found.interactions
    assert pair.keys == (KL, LR)
    assert pair.p == pytest.approx(anova(values).loc["C(kl, Sum):C(lr, Sum)", "PR(>F)"])


def test_an_effect_that_reverses_is_an_interaction_and_never_nothing() -> None:
    rng = np.random.default_rng(0)
    places = combinations((1, 2), (1, 2))
    values = {(a, b): list(0.5 + (0.2 if a == b else -0.2) + rng.normal(0, 0.02, 5)) for a, b in places}
    found = compared(values, expectations=(Expectation(KL, 2, "none"),))
    (pair,) = found.interactions
    assert pair.matters and pair.p_adjusted < 1e-10
    assert found.depends_on(KL) == (LR,) and found.depends_on(LR) == (KL,)
    assert [one.verdict for one in found.expected] == ["open"]
    assert any(note.startswith(f"what {KL} does depends on {LR}") for note in found.notes)


def test_one_combination_of_many_that_stands_out_is_an_interaction() -> None:
    values = drawn(2)
    values[2, 3] = [value + 0.3 for value in values[2, 3]]
    assert [pair.matters for pair in compared(values).interactions] == [True]
    assert [pair.matters for pair in compared(drawn(2)).interactions] == [False]


@pytest.mark.parametrize("design", ["grid", "one-at-a-time", "random"])
def test_where_nothing_matters_one_study_in_twenty_says_that_something_does(design: str) -> None:
    rng = np.random.default_rng(13)
    places = [(a, b) for a, b in combinations((0, 1, 2), (0, 1)) if design != "one-at-a-time" or not a * b]
    said = 0
    for _ in range(80):
        found = compared({place: list(rng.normal(5, 1, 2)) for place in places}, design=design, metric="x")
        said += any(key.matters for key in found.keys) or any(pair.matters for pair in found.interactions)
    assert said <= 9  # of 80, where 4 are expected


def test_all_comparisons_and_interactions_are_one_family() -> None:
    found = compared(drawn(5))
    p_values = [one.p for key in found.keys for one in key.contrasts] + [one.p for one in found.interactions]
    adjusted = [one.p_adjusted for key in found.keys for one in key.contrasts]
    adjusted += [one.p_adjusted for one in found.interactions]
    assert len(p_values) == 6
    assert adjusted == pytest.approx(multipletests(p_values, method="holm")[1])


def test_a_key_matters_where_one_of_its_comparisons_is_a_finding() -> None:
    found = compared(drawn(3, effect=0.08))
    for key in found.keys:
        assert key.matters == any(one.finding in ("higher", "lower") for one in key.contrasts)
        assert key.p == min(one.p for one in key.contrasts if one.p is not None)
        assert key.p_adjusted == min(one.p_adjusted for one in key.contrasts if one.p_adjusted is not None)
    assert [key.matters for key in found.keys] == [True, False]
