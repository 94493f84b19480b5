"""What language models cost, have cost in one experiment, and whether they may be asked again.

Prices in `prices.yaml` are the providers' public list prices at the date it names; a model counts as listed
under its own name, with or without a date behind it, and never because its name merely begins alike.
`Spending` is the fold of the journal's `llm_*` entries. A call whose end was never recorded (the harness was
killed) stays counted at its reservation, which is the most it can have cost.
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from harness.installation import own_table
from harness.journal.model_events import LlmFailed, LlmReserved, LlmRetried, LlmSettled
from harness.journal.order import Event
from harness.providers.chat import Request, Usage

WARNING_SHARE = 0.8
DEFAULT_LIMIT_CALLS = 100
DEFAULT_LIMIT_USD = 10.0
"""What a run may use by default, and the most that the working directory's harness.toml may allow."""
_SNAPSHOT = r"(?:-\d{8}|-\d{4}-\d{2}-\d{2}|-latest)?"
_FEWEST_BYTES_PER_TOKEN = 3


@dataclass(frozen=True)
class Price:
    """USD per million tokens: input that no cache holds, read from a cache, written to one, and output."""

    input: float
    cached_input: float
    cache_write: float
    cache_write_1h: float
    output: float


FREE = Price(0.0, 0.0, 0.0, 0.0, 0.0)


def cost(usage: Usage, price: Price) -> float:
    """USD for what was used."""
    return (
        usage.input_tokens * price.input
        + usage.cache_read_tokens * price.cached_input
        + usage.cache_write_tokens * price.cache_write
        + usage.cache_write_1h_tokens * price.cache_write_1h
        + usage.output_tokens * price.output
    ) / 1e6


def worst_case(request: Request, price: Price) -> float:
    """USD that the request can cost at most: three bytes per token, all of them written to the dearest
    cache, and every output token used."""
    tokens = -(-request.size // _FEWEST_BYTES_PER_TOKEN)
    dearest = max(price.input, price.cached_input, price.cache_write, price.cache_write_1h)
    return (tokens * dearest + request.max_output_tokens * price.output) / 1e6


def price_of(
    provider: str, model: str, base_url: str | None, own: Mapping[str, Mapping[str, float | None]]
) -> Price | None:
    """The price of a model: the user's `own` ("provider:model" → fields), then the table, then nothing for a
    server on this machine; None when it is not known."""
    table = own_table(Path(__file__).with_name("prices.yaml"))
    listed = table["models"][provider].items()
    found = own.get(f"{provider}:{model}") or next(
        (fields for name, fields in listed if re.fullmatch(re.escape(name) + _SNAPSHOT, model)), None
    )
    if found is None:
        return FREE if base_url is not None and is_loopback(base_url) else None
    given = {name: float(value) for name, value in found.items() if value is not None}
    multiples = table["cache_multiples"][provider].items()
    return Price(**({name: round(given["input"] * factor, 6) for name, factor in multiples} | given))


def is_loopback(url: str) -> bool:
    """True if the URL names this machine itself."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# --- spending and its limits ------------------------------------------------------------------------------


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


def after(spending: Spending, event: Event) -> Spending:
    """The spending after one event; those of other kinds change nothing.

    Costs that are None (no price is known) count as 0.
    """
    if isinstance(event, LlmReserved):
        return Spending(event.call, spending.total_usd, event.reserved_usd or 0.0)
    if isinstance(event, LlmRetried):
        return Spending(spending.calls, spending.cost_usd, event.reserved_usd or 0.0)
    if isinstance(event, LlmSettled | LlmFailed):
        return Spending(spending.calls, spending.cost_usd + (event.cost_usd or 0.0), 0.0)
    return spending


def why_not(spending: Spending, limits: Limits, next_usd: float | None, model: str) -> str | None:
    """Why no further call may be made, and how to change that; None when one may.

    `next_usd` is the most that the next call can cost; None when the price of `model` is not known.
    """
    calls, most_usd = limits.max_calls, limits.max_cost_usd
    if calls is not None and spending.calls >= calls:
        return (
            f"{spending.calls} calls to {model} were made and {calls} are allowed; "
            "`max_calls` in the [llm] section of harness.toml raises that"
        )
    if most_usd is None:
        return None
    if next_usd is None:
        return (
            f"the cost is limited to {most_usd:.2f} USD, but the price of {model} is not known; "
            f'add a section [prices."{model}"] with `input` and `output` in USD per million tokens to '
            "harness.toml"
        )
    if spending.total_usd + next_usd > most_usd:
        return (
            f"{spending.total_usd:.4f} USD of {most_usd:.2f} are spent, the next call to {model} "
            f"may cost up to {next_usd:.4f}; `max_cost` in the [llm] section of harness.toml raises that"
        )
    return None


def warning(before: Spending, now: Spending, limits: Limits) -> str | None:
    """The sentence for the moment when 80 % of a limit was passed between `before` and `now`, else None."""
    sentences = []
    calls, usd = limits.max_calls, limits.max_cost_usd
    if calls is not None and before.calls < WARNING_SHARE * calls <= now.calls:
        sentences.append(f"{now.calls} of {calls} calls to the language model are used")
    if usd is not None and before.total_usd < WARNING_SHARE * usd <= now.total_usd:
        sentences.append(f"{now.total_usd:.2f} of {usd:.2f} USD for the language model are spent")
    return "; ".join(sentences) or None
