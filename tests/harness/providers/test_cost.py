"""What a call costs, against hand-made sums; limits hold, and a call that never ended stays counted."""

import itertools

import pytest

from harness.journal.events import Intent
from harness.journal.model_events import LlmFailed, LlmReserved, LlmRetried, LlmSettled
from harness.providers.chat import Request, Usage, UserTurn
from harness.providers.cost import (
    FREE,
    Limits,
    Price,
    Spending,
    after,
    cost,
    is_loopback,
    price_of,
    warning,
    why_not,
    worst_case,
)

PRICE = Price(input=3.0, cached_input=0.3, cache_write=3.75, cache_write_1h=6.0, output=15.0)


def test_cost_is_the_sum_over_kinds_of_tokens() -> None:
    usage = Usage(1_000_000, 2_000_000, 100_000, 50_000, 10_000)
    assert cost(usage, PRICE) == pytest.approx(3.0 + 0.6 + 0.375 + 0.3 + 0.15)


def test_the_worst_case_covers_whatever_is_used() -> None:
    request = Request("s" * 3000, (), (UserTurn("u" * 3000),), max_output_tokens=100)
    most = worst_case(request, PRICE)
    assert most >= (2000 * 6.0 + 100 * 15.0) / 1e6
    assert most >= cost(Usage(cache_write_1h_tokens=2000, output_tokens=100), PRICE)
    assert worst_case(request, FREE) == 0


def test_a_listed_model_its_snapshots_and_ones_own_price() -> None:
    for name in ("claude-sonnet-4-5", "claude-sonnet-4-5-20250929"):
        assert price_of("anthropic", name, None, {}) == PRICE
    assert price_of("openai", "gpt-4o-2024-11-20", None, {}) == Price(2.5, 1.25, 2.5, 2.5, 10)
    for alike in ("gpt-4o-audio-preview", "gpt-5-pro", "gpt-5x", "my-gpt-5"):
        assert price_of("openai", alike, None, {}) is None, alike
    own = {"anthropic:claude-sonnet-4-5": {"input": 1.0, "output": 2.0, "cached_input": 0.5}}
    assert price_of("anthropic", "claude-sonnet-4-5", None, own) == Price(1.0, 0.5, 1.25, 2.0, 2.0)


OWN = ["http://localhost:1", "http://[::1]:1/v1", "http://127.8.0.1"]
OTHER = ["http://127.0.0.1.example.org", "http://localhost.example.org", "http://gpu-box:8000/v1"]


@pytest.mark.parametrize("url", [*OWN, *OTHER])
def test_a_model_on_this_machine_is_free_and_one_elsewhere_is_unknown(url: str) -> None:
    assert is_loopback(url) == (url in OWN)
    assert price_of("openai", "qwen", url, {}) == (FREE if url in OWN else None)


# --- spending and its limits ---


def test_a_call_of_the_journal_counts_with_all_it_can_have_cost_until_it_is_settled() -> None:
    begun = spending = after(Spending(), LlmReserved(1, 0.5, "m", ""))
    assert spending == Spending(1, 0.0, 0.5)
    spending = after(spending, LlmRetried(1, "", 1, 0.1, 0.6))
    assert spending.total_usd == pytest.approx(0.6)
    spending = after(spending, LlmSettled(1, 0.2, {}, "end"))
    assert spending == Spending(1, 0.2, 0.0)
    assert after(spending, Intent("wait")) == spending
    killed = after(begun, LlmReserved(2, 0.25, "m", ""))
    assert after(killed, LlmFailed(2, 0.0, "")) == Spending(2, 0.5, 0.0)


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
    assert (reason is None) == (words is None)
    assert words is None or words in str(reason)


def test_the_warning_comes_once_on_the_way() -> None:
    limits = Limits(1.0, 100)
    costs = [0.5, 0.79, 0.81, 0.9, 0.99]
    spent = [Spending(number, usd) for number, usd in enumerate(costs)]
    said = [warning(before, now, limits) for before, now in itertools.pairwise(spent)]
    assert [bool(sentence) for sentence in said] == [False, True, False, False]
    assert said[1] == "0.81 of 1.00 USD for the language model are spent"
    assert warning(Spending(79), Spending(80), limits)
    assert warning(Spending(80), Spending(81), limits) is None
