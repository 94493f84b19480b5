"""Limits hold, and a call whose end was never recorded stays counted."""

from __future__ import annotations

import itertools

import pytest

from harness.journal.events import Intent, LlmFailed, LlmReserved, LlmRetried, LlmSettled
from harness.providers.cost import Limits, Spending, after, warning, why_not


def test_the_fold_of_a_journal() -> None:
    spending = after(Spending(), LlmReserved(1, 0.5, "m", ""))
    assert spending == Spending(1, 0.0, 0.5)
    spending = after(spending, LlmRetried(1, "", 1, 0.1, 0.6))
    assert spending.total_usd == pytest.approx(0.6)
    spending = after(spending, LlmSettled(1, 0.2, {}, "end"))
    assert spending == Spending(1, 0.2, 0.0)
    assert after(spending, Intent("wait")) == spending


def test_a_killed_call_counts_with_all_it_can_have_cost() -> None:
    spending = after(Spending(), LlmReserved(1, 0.5, "m", ""))
    spending = after(spending, LlmReserved(2, 0.25, "m", ""))
    spending = after(spending, LlmFailed(2, 0.0, ""))
    assert spending == Spending(2, 0.5, 0.0)


@pytest.mark.parametrize(
    ("spending", "limits", "next_usd", "words"),
    [
        (Spending(3), Limits(None, 3), 0.0, "max_calls"),
        (Spending(2, 0.9, 0.05), Limits(1.0), 0.06, "max_cost"),
        (Spending(), Limits(1.0), None, '[prices."m"]'),
        (Spending(2), Limits(None, 3), None, None),
        (Spending(2, 0.9), Limits(1.0), 0.1, None),
    ],
)
def test_why_not(spending: Spending, limits: Limits, next_usd: float | None, words: str | None) -> None:
    reason = why_not(spending, limits, next_usd, "m")
    if words is None:
        assert reason is None
    else:
        assert reason is not None
        assert words in reason


def test_the_warning_comes_once_on_the_way() -> None:
    limits = Limits(1.0, 100)
    costs = [0.5, 0.79, 0.81, 0.9, 0.99]
    spent = [Spending(number, usd) for number, usd in enumerate(costs)]
    said = [warning(before, now, limits) for before, now in itertools.pairwise(spent)]
    assert [bool(sentence) for sentence in said] == [False, True, False, False]
    assert said[1] == "0.81 of 1.00 USD for the language model are spent"
    assert warning(Spending(79), Spending(80), limits)
    assert warning(Spending(80), Spending(81), limits) is None
