"""What language models have cost in one experiment, and whether they may be asked again.

In: the journal's `llm_*` entries, folded one by one with `after`. Out: `Spending`, and from it with the
limits a sentence that forbids the next call or None (`why_not`), and the one warning on the way (`warning`).
A call whose end was never recorded (the harness was killed) stays counted at its reservation, which is the
most it can have cost.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

WARNING_SHARE = 0.8
DEFAULT_LIMIT_CALLS = 100
DEFAULT_LIMIT_USD = 10.0
"""What a run may use where nobody says anything, and the most that the working directory's file may say."""


@dataclass(frozen=True)
class Limits:
    """The most an experiment may spend on language models; None: no limit of that kind."""

    max_cost_usd: float | None = None
    max_calls: int | None = None


@dataclass(frozen=True)
class Spending:
    """Calls begun, what the ended ones cost, and what the one that has not ended may cost at most."""

    calls: int = 0
    cost_usd: float = 0.0
    reserved_usd: float = 0.0

    @property
    def total_usd(self) -> float:
        """The most that can have been spent so far."""
        return self.cost_usd + self.reserved_usd


def after(spending: Spending, kind: str, data: Mapping[str, Any]) -> Spending:
    """The spending after one journal entry; entries of other kinds change nothing.

    Costs that are None (no price is known) count as 0.
    """
    if kind == "llm_reserved":
        return Spending(data["call"], spending.total_usd, data["reserved_usd"] or 0.0)
    if kind == "llm_retried":
        return Spending(spending.calls, spending.cost_usd, data["reserved_usd"] or 0.0)
    if kind in ("llm_settled", "llm_failed"):
        return Spending(spending.calls, spending.cost_usd + (data["cost_usd"] or 0.0), 0.0)
    return spending


def why_not(spending: Spending, limits: Limits, next_usd: float | None, model: str) -> str | None:
    """Why no further call may be made, with the mend; None when one may.

    `next_usd` is the most that the next call can cost; None when the price of `model` is not known.
    """
    if limits.max_calls is not None and spending.calls >= limits.max_calls:
        return (
            f"{spending.calls} calls to {model} were made and {limits.max_calls} are allowed; "
            "`max_calls` in the [llm] section of harness.toml raises that"
        )
    if limits.max_cost_usd is None:
        return None
    if next_usd is None:
        return (
            f"the cost is limited to {limits.max_cost_usd:.2f} USD, but the price of {model} is not known; "
            f'add a section [prices."{model}"] with `input` and `output` in USD per million tokens to '
            "harness.toml"
        )
    if spending.total_usd + next_usd > limits.max_cost_usd:
        return (
            f"{spending.total_usd:.4f} USD of {limits.max_cost_usd:.2f} are spent, the next call to {model} "
            f"may cost up to {next_usd:.4f}; `max_cost` in the [llm] section of harness.toml raises that"
        )
    return None


def warning(before: Spending, now: Spending, limits: Limits) -> str | None:
    """The sentence to say when 80 % of a limit was passed between `before` and `now`; None otherwise."""
    sentences = []
    calls, cost = limits.max_calls, limits.max_cost_usd
    if calls is not None and before.calls < WARNING_SHARE * calls <= now.calls:
        sentences.append(f"{now.calls} of {calls} calls to the language model are used")
    if cost is not None and before.total_usd < WARNING_SHARE * cost <= now.total_usd:
        sentences.append(f"{now.total_usd:.2f} of {cost:.2f} USD for the language model are spent")
    return "; ".join(sentences) or None
