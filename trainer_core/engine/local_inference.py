"""Batched sampling from a transformers model with a hand-written loop over its KV cache.

Several times faster than `generate` on small models: each prompt is read once however often it is repeated,
finished rows are dropped from the cache, and the log-probability of each token is recorded as it is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache

from trainer_core.algorithm.logits import token_logprobs
from trainer_core.types import Completion, Sampling

_LOGITS_AT_ONCE = 2**26
"""Rows are generated in chunks such that rows × vocabulary stays below this (256 MB in float32)."""
_ROWS_AT_ONCE = 2048


class LocalInference:
    """Generates from a model in this process; it always sees the weights as they are."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._model = model
        self._pad_id = (
            tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        )
        self._end_ids = torch.tensor(_end_ids(model, tokenizer))

    @torch.no_grad()
    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        repeats: int,
        sampling: Sampling,
        max_new_tokens: int,
        seed: int,
    ) -> list[list[Completion]]:
        """See `InferenceEngine.generate`."""
        self._model.eval()
        generator = torch.Generator().manual_seed(seed)
        rows = max(1, min(_ROWS_AT_ONCE, _LOGITS_AT_ONCE // self._model.config.vocab_size))
        prompts_at_once = max(1, rows // repeats)
        groups: list[list[Completion]] = []
        for start in range(0, len(prompts), prompts_at_once):
            chunk = prompts[start : start + prompts_at_once]
            flat = self._generate_chunk(chunk, repeats, sampling, max_new_tokens, generator)
            groups += [flat[row : row + repeats] for row in range(0, len(flat), repeats)]
        return groups

    def _generate_chunk(
        self,
        prompts: Sequence[Sequence[int]],
        repeats: int,
        sampling: Sampling,
        max_new_tokens: int,
        generator: torch.Generator,
    ) -> list[Completion]:
        total = len(prompts) * repeats
        tokens = torch.full((total, max_new_tokens), self._pad_id)
        logprobs = torch.zeros(total, max_new_tokens)
        lengths = torch.full((total,), max_new_tokens)
        finished = torch.zeros(total, dtype=torch.bool)
        alive = torch.arange(total)  # which output row each row of the cache belongs to

        cache = DynamicCache(config=self._model.config)
        logits, mask = self._read_prompts(prompts, cache)
        cache.batch_repeat_interleave(repeats)
        logits = logits.repeat_interleave(repeats, dim=0)
        mask = mask.repeat_interleave(repeats, dim=0)
        padded = not bool(mask.all())
        for position in range(max_new_tokens):
            drawn, drawn_logprobs = draw(logits, sampling, generator)
            tokens[alive, position], logprobs[alive, position] = drawn, drawn_logprobs
            ended = torch.isin(drawn, self._end_ids)
            finished[alive[ended]] = True
            lengths[alive[ended]] = position + 1
            going_on = (~ended).nonzero().squeeze(-1)
            if len(going_on) == 0 or position + 1 == max_new_tokens:
                break
            if len(going_on) < len(alive):
                alive, drawn, mask = alive[going_on], drawn[going_on], mask[going_on]
                cache.batch_select_indices(going_on)
            mask = torch.cat([mask, mask.new_ones(len(alive), 1)], dim=1)
            logits = (
                self._model(
                    input_ids=drawn.unsqueeze(-1),
                    attention_mask=mask if padded else None,
                    position_ids=mask.sum(dim=1, keepdim=True) - 1,
                    past_key_values=cache,
                    use_cache=True,
                )
                .logits[:, -1]
                .float()
            )
        return [
            Completion(tuple(ids[:length]), tuple(values[:length]), done)
            for ids, values, length, done in zip(
                tokens.tolist(), logprobs.tolist(), lengths.tolist(), finished.tolist(), strict=True
            )
        ]

    def _read_prompts(
        self, prompts: Sequence[Sequence[int]], cache: DynamicCache
    ) -> tuple[torch.Tensor, torch.Tensor]:
        width = max(map(len, prompts))
        ids = torch.tensor([[self._pad_id] * (width - len(prompt)) + list(prompt) for prompt in prompts])
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        padded = not bool(mask.all())
        logits = self._model(
            input_ids=ids,
            attention_mask=mask if padded else None,
            position_ids=(mask.cumsum(dim=1) - 1).clamp(min=0) if padded else None,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        ).logits[:, -1]
        return logits.float(), mask


def draw(
    logits: torch.Tensor, sampling: Sampling, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw one token per row.

    Args:
        logits: [B, V].

    Returns:
        ids [B] and their log-probabilities [B] under softmax(logits / temperature), before the top-k and
        top-p cut; at temperature 0 the most probable id and its log-probability at temperature 1.
    """
    if sampling.temperature == 0:
        best = logits.argmax(dim=-1)
        return best, token_logprobs(logits, best)
    scaled = logits / sampling.temperature
    probabilities = keep_likely(scaled, sampling).softmax(dim=-1)
    # argmax(p / Exp(1) noise) draws from p: the exponential form of the Gumbel-max trick
    noise = torch.empty_like(probabilities).exponential_(generator=generator)
    drawn = (probabilities / noise).argmax(dim=-1)
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


def _end_ids(model: Any, tokenizer: Any) -> list[int]:
    declared = model.generation_config.eos_token_id
    ids = declared if isinstance(declared, list) else [declared]
    return sorted({number for number in [*ids, tokenizer.eos_token_id] if number is not None})
