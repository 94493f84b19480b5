"""From samples to padded tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from trainer_core.types import Sample, TokenBatch


def collate(samples: Sequence[Sample], pad_id: int) -> TokenBatch:
    """Pad prompts on the left, responses on the right: every response starts in the same column."""
    prompt_width = max(len(sample.prompt_ids) for sample in samples)
    response_width = max(len(sample.completion.token_ids) for sample in samples)
    rows: list[list[int]] = []
    attention: list[list[int]] = []
    responses: list[list[float]] = []
    logprobs: list[list[float]] = []
    for sample in samples:
        prompt, response = list(sample.prompt_ids), list(sample.completion.token_ids)
        left, right = prompt_width - len(prompt), response_width - len(response)
        rows.append([pad_id] * left + prompt + response + [pad_id] * right)
        attention.append([0] * left + [1] * (len(prompt) + len(response)) + [0] * right)
        responses.append([1.0] * len(response) + [0.0] * right)
        logprobs.append(list(sample.completion.logprobs) + [0.0] * right)
    return TokenBatch(
        input_ids=torch.tensor(rows),
        attention_mask=torch.tensor(attention),
        response_mask=torch.tensor(responses),
        rollout_logprobs=torch.tensor(logprobs),
    )
