"""What is read off a model's logits: log-probabilities of chosen tokens, entropy."""

from __future__ import annotations

import torch


def token_logprobs(logits: torch.Tensor, token_ids: torch.Tensor) -> torch.Tensor:
    """Natural log-probability of each chosen token.

    Args:
        logits: [..., V]. token_ids: [...] int64.

    Returns:
        [...].
    """
    return logits.gather(-1, token_ids.unsqueeze(-1)).squeeze(-1) - logits.logsumexp(dim=-1)


def entropy(logits: torch.Tensor) -> torch.Tensor:
    """Entropy of softmax(logits) in nats: logsumexp(z) - Σ softmax(z)·z. [..., V] → [...]."""
    return logits.logsumexp(dim=-1) - (logits.softmax(dim=-1) * logits).sum(dim=-1)
