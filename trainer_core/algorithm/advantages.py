"""From rewards to advantages."""

from __future__ import annotations

import torch


def grpo_advantages(
    rewards: torch.Tensor, groups: torch.Tensor, *, norm_by_std: bool = True, eps: float = 1e-6
) -> torch.Tensor:
    """Group-relative advantages, one per sample: (reward - mean of its group) / (std of its group + eps).

    Args:
        rewards: [B] float.
        groups: [B] int, equal for samples of the same task.
        norm_by_std: False leaves the division out (Dr. GRPO, arXiv 2503.20783).
        eps: added to the standard deviation; verl 1e-6, TRL 1e-4.

    Returns:
        [B]. The standard deviation is the sample's (n - 1). A group of one keeps its reward as it is (mean
        0, std 1), as verl's `compute_grpo_outcome_advantage` does; a group of equal rewards gets 0.

    Source: GRPO, arXiv 2402.03300, section 4.1.2.
    """
    if rewards.shape != groups.shape or rewards.dim() != 1:
        raise ValueError(
            f"rewards and groups must both be [B], got {tuple(rewards.shape)} and {tuple(groups.shape)}"
        )
    _, member_of, counts = torch.unique(groups, return_inverse=True, return_counts=True)
    size = counts.to(rewards.dtype)
    alone = counts == 1
    total = torch.zeros_like(size).index_add_(0, member_of, rewards)
    mean = torch.where(alone, torch.zeros_like(total), total / size)
    centred = rewards - mean[member_of]
    if not norm_by_std:
        return centred
    squares = torch.zeros_like(size).index_add_(0, member_of, centred**2)
    std = torch.where(alone, torch.ones_like(squares), (squares / (size - 1).clamp(min=1)).sqrt())
    return centred / (std[member_of] + eps)
