"""Policy-gradient losses and how per-token losses become one number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

Aggregation = Literal[
    "token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"
]


@dataclass(frozen=True)
class PolicyLoss:
    """Per-token losses [B, R] and what happened to them; nothing is masked or averaged yet."""

    losses: torch.Tensor
    clipped: torch.Tensor
    """[B, R] 1 where the upper clip was active."""
    log_ratio: torch.Tensor
    """[B, R] logprobs - old_logprobs, clamped to ±20."""


def clipped_policy_loss(
    logprobs: torch.Tensor,
    old_logprobs: torch.Tensor,
    advantages: torch.Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float = 3.0,
) -> PolicyLoss:
    """PPO's clipped surrogate, per token: -min(ratio · A, clip(ratio, 1 - clip_low, 1 + clip_high) · A).

    Where A < 0 the loss is bounded by -dual_clip · A, so that one very unlikely token cannot blow up the
    step.

    Args:
        logprobs, old_logprobs, advantages: [B, R].

    Source: PPO, arXiv 1707.06347, eq. 7; separate bounds from DAPO, arXiv 2503.14476; dual clip from arXiv
    1912.09729, eq. 5; the clamp of the log-ratio to ±20 as verl `compute_policy_loss_vanilla`.
    """
    log_ratio = (logprobs - old_logprobs).clamp(-20.0, 20.0)
    ratio = log_ratio.exp()
    plain = -advantages * ratio
    bounded = -advantages * ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    pessimistic = torch.maximum(plain, bounded)
    capped = torch.minimum(pessimistic, -advantages * dual_clip)
    return PolicyLoss(
        losses=torch.where(advantages < 0, capped, pessimistic),
        clipped=(bounded > plain).to(logprobs.dtype),
        log_ratio=log_ratio,
    )


def masked_mean(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Mean over the positions where mask is 1; 0 when there are none."""
    return (values * mask).sum() / mask.sum().clamp(min=1.0)


def aggregate(
    losses: torch.Tensor, mask: torch.Tensor, mode: Aggregation = "token-mean", *, horizon: int | None = None
) -> torch.Tensor:
    """One loss from per-token losses.

    Args:
        losses, mask: [B, R]; sequences that are masked out entirely do not count as sequences.
        mode: token-mean (DAPO), token-sum, seq-mean-token-sum, seq-mean-token-mean (the original GRPO),
            seq-mean-token-sum-norm (Dr. GRPO: divided by the constant `horizon`).
        horizon: the constant for seq-mean-token-sum-norm; R when None.

    Returns:
        A scalar.
    """
    if mode == "token-mean":
        return masked_mean(losses, mask)
    per_sequence = (losses * mask).sum(dim=-1)
    if mode == "token-sum":
        return per_sequence.sum()
    lengths = mask.sum(dim=-1)
    sequences = (lengths > 0).sum().clamp(min=1)
    if mode == "seq-mean-token-sum":
        return per_sequence.sum() / sequences
    if mode == "seq-mean-token-mean":
        return (per_sequence / lengths.clamp(min=1.0)).sum() / sequences
    if mode == "seq-mean-token-sum-norm":
        return per_sequence.sum() / sequences / (horizon or losses.shape[-1])
    raise ValueError(f"unknown aggregation {mode!r}")
