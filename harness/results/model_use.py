"""What asking a language model took: calls, tokens, money. Folded from the journal; shown, never a fact."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.journal import Entry
from harness.journal.model_events import LlmFailed, LlmReserved, LlmSettled
from harness.llm_use import LlmUse
from harness.wording import count_text, number_text


@dataclass(frozen=True)
class ModelUse:
    """What asking a language model took, as the journal keeps it."""

    model: str
    calls: int
    input_tokens: int  # all of them, also those from the cache
    cached_tokens: int  # read from the cache
    output_tokens: int
    cost_usd: float  # of the calls with a known price; with the most that cut off ones may have cost
    unpriced_calls: int = 0
    cut_off_calls: int = 0  # of which nobody knows what they cost in the end

    @property
    def cost(self) -> str:
        """In words, e.g. `0.0412 USD`, `price unknown`."""
        if self.unpriced_calls >= self.calls:
            return "price unknown"
        cost = f"{self.cost_usd:.4f} USD" if 0 < self.cost_usd < 10 else f"{self.cost_usd:.2f} USD"
        cut_off, unpriced = (count_text(n, "call") for n in (self.cut_off_calls, self.unpriced_calls))
        if self.cut_off_calls:
            cost = f"at most {cost} ({cut_off} cut off before the price was known)"
        return f"{cost}, and {unpriced} of unknown price" if self.unpriced_calls else cost

    @property
    def tokens(self) -> str:
        """In words, e.g. `12 000 input tokens (8 000 from the cache), 900 output tokens`."""
        read = f" ({number_text(self.cached_tokens, 'count')} from the cache)" if self.cached_tokens else ""
        sent, written = (number_text(count, "count") for count in (self.input_tokens, self.output_tokens))
        return f"{sent} input tokens{read}, {written} output tokens"


def model_use(entries: Iterable[Entry], use: LlmUse) -> ModelUse | None:
    """Calls, tokens and money of a run; None when no model was asked."""
    if not use.calls:
        return None
    begun: set[int] = set()
    unpriced: set[int] = set()
    ended: set[int] = set()
    for event in (entry.event for entry in entries):
        if isinstance(event, LlmReserved):
            begun.add(event.call)
            unpriced |= {event.call} if event.reserved_usd is None else set()
        elif isinstance(event, LlmSettled | LlmFailed) and not event.is_estimated:
            ended.add(event.call)
            unpriced |= {event.call} if event.cost_usd is None else set()
    tokens = use.tokens
    return ModelUse(
        model=use.model,
        calls=use.calls,
        input_tokens=sum(count for name, count in tokens.items() if name != "output_tokens"),
        cached_tokens=tokens.get("cache_read_tokens", 0),
        output_tokens=tokens.get("output_tokens", 0),
        cost_usd=use.cost_usd,
        unpriced_calls=len(unpriced),
        cut_off_calls=len(begun - ended - unpriced),
    )
