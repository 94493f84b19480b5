"""What a call costs: the price table and the sums.

In: a provider, a model's name, and what the user's harness.toml says. Out: a `Price` or None. Prices in
`prices.yaml` are the providers' public list prices at the date it names; a model counts as listed under its
own name, with or without a date behind it, and never because its name merely begins alike.
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ruamel.yaml import YAML

from harness.providers.turns import request_bytes
from harness.providers.types import Request, Usage

_TABLE = Path(__file__).with_name("prices.yaml")
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
    tokens = -(-request_bytes(request) // _FEWEST_BYTES_PER_TOKEN)
    dearest = max(price.input, price.cached_input, price.cache_write, price.cache_write_1h)
    return (tokens * dearest + request.max_output_tokens * price.output) / 1e6


def price_of(
    provider: str, model: str, base_url: str | None, own: Mapping[str, Mapping[str, float | None]]
) -> Price | None:
    """The price of a model: the user's `own` ("provider:model" → fields), then the table, then nothing for a
    server on this machine; None when it is not known."""
    table = _table()
    for name, fields in own.items():
        if name == f"{provider}:{model}":
            return _complete(fields, table["cache_multiples"][provider])
    for name, fields in table["models"][provider].items():
        if re.fullmatch(re.escape(name) + _SNAPSHOT, model):
            return _complete(fields, table["cache_multiples"][provider])
    return FREE if base_url is not None and is_loopback(base_url) else None


def is_loopback(url: str) -> bool:
    """Whether the URL names this machine itself."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _complete(fields: Mapping[str, float | None], multiples: Mapping[str, float]) -> Price:
    """The price with what is not said filled in from the provider's usual multiples of the input price."""
    said = {name: float(value) for name, value in fields.items() if value is not None}
    usual = {name: round(said["input"] * factor, 6) for name, factor in multiples.items()}
    return Price(**(usual | said))


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = YAML(typ="safe", pure=True).load(_TABLE.read_text(encoding="utf-8"))
    return table
