"""What a step's batch says: rewards, advantages, lengths, and whether the two engines agree."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from trainer_core.types import Sample, TokenBatch


def batch_metrics(
    samples: Sequence[Sample],
    batch: TokenBatch,
    advantages: torch.Tensor,
    old_logprobs: torch.Tensor,
    longest_response: int,
) -> dict[str, float]:
    """Metrics of one step, under verl's names.

    Args:
        advantages: [B]. old_logprobs: [B, R], as the training engine sees the tokens.
        longest_response: the limit in tokens; `response_length/clip_ratio` is the share of responses that
        reached it.

    `training/rollout_probs_diff_max` is the largest difference between a token's probability when it was
    sampled and the training engine's: the two differ by rounding only, or the loop is not on-policy.
    """
    rewards = torch.tensor([sample.reward for sample in samples])
    prompts = torch.tensor([float(len(sample.prompt_ids)) for sample in samples])
    responses = batch.response_mask.sum(dim=1)
    difference = (batch.rollout_logprobs.exp() - old_logprobs.exp()).abs() * batch.response_mask
    return {
        **_spread("critic/rewards", rewards),
        **_spread("critic/advantages", advantages),
        "critic/success_rate": sum(sample.is_success for sample in samples) / len(samples),
        **_spread("response_length", responses),
        "response_length/clip_ratio": float((responses >= longest_response).float().mean()),
        "prompt_length/mean": float(prompts.mean()),
        "training/rollout_probs_diff_max": float(difference.max()),
        "perf/total_num_tokens": int(prompts.sum() + responses.sum()),
    }


def _spread(name: str, values: torch.Tensor) -> dict[str, float]:
    return {
        f"{name}/mean": float(values.mean()),
        f"{name}/max": float(values.max()),
        f"{name}/min": float(values.min()),
    }
