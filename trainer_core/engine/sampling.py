"""From logits to drawn tokens: temperature, top-k, top-p; and which of them end an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from trainer_core.algorithm.logits import token_logprobs
from trainer_core.types import Sampling


def draw(
    logits: torch.Tensor, sampling: Sampling, uniform: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw one token per row, by inverting the distribution function at `uniform` (one random number per
    row; exponential noise needs one per vocabulary entry, which costs nine times as much on a CPU).

    Args:
        logits: [B, V].
        uniform: [B] float64 in [0, 1).

    Returns:
        ids [B] and their log-probabilities [B] under softmax(logits / temperature), before the top-k and
        top-p cut; at temperature 0 the most probable id and its log-probability at temperature 1.
    """
    if sampling.temperature == 0:
        best = logits.argmax(dim=-1)
        return best, token_logprobs(logits, best)
    scaled = logits / sampling.temperature
    mass = keep_likely(scaled, sampling).softmax(dim=-1).cumsum(dim=-1, dtype=torch.float64)
    total = mass[:, -1:]
    # below the total, so that the rounding of the product cannot choose a token behind the last likely one
    wanted = torch.minimum(uniform.unsqueeze(-1) * total, torch.nextafter(total, torch.zeros_like(total)))
    drawn = torch.searchsorted(mass, wanted, right=True).squeeze(-1)
    return drawn, token_logprobs(scaled, drawn)


def keep_likely(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """Set to -inf what top_k, then top_p leave out; [B, V] → [B, V]. The likeliest token stays."""
    if 0 < sampling.top_k < logits.shape[-1]:
        kth = logits.topk(sampling.top_k, dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < kth, float("-inf"))
    if sampling.top_p < 1.0:
        ordered, index = logits.sort(dim=-1, descending=True)
        probabilities = ordered.softmax(dim=-1)
        before = probabilities.cumsum(dim=-1) - probabilities  # the mass of everything more probable
        drop = before >= sampling.top_p
        drop[:, 0] = False
        logits = logits.masked_fill(torch.zeros_like(drop).scatter_(-1, index, drop), float("-inf"))
    return logits


def likeliest(logits: torch.Tensor, temperature: float, count: int) -> list[list[tuple[int, float]]]:
    """The `count` most probable ids of each row with their log-probabilities at `temperature` (at 1 where
    it is 0), descending; [B, V] → B lists."""
    logprobs, ids = (logits / (temperature or 1.0)).log_softmax(dim=-1).topk(min(count, logits.shape[-1]))
    return [list(zip(*row, strict=True)) for row in zip(ids.tolist(), logprobs.tolist(), strict=True)]


def end_ids(generation_config: Any, tokenizer: Any) -> frozenset[int]:
    """The model's own end-of-sequence ids."""
    declared = generation_config.eos_token_id
    ends = declared if isinstance(declared, list) else [declared]
    return frozenset(each for each in (*ends, tokenizer.eos_token_id) if each is not None)


def has_stop_text(tokenizer: Any, ids: Sequence[int], stop_texts: Sequence[str]) -> bool:
    """True if the last token has completed a stop text; a token is at least one byte of it."""
    if not stop_texts:
        return False
    longest = max(len(stop.encode()) for stop in stop_texts)
    tail = tokenizer.decode(ids[-longest - 3 :], skip_special_tokens=True)
    return any(stop in tail for stop in stop_texts)
