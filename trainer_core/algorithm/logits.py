"""What is read off a model's logits: log-probabilities of chosen tokens, and entropy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from trainer_core.bounds import LOGITS_AT_ONCE


def token_logprobs(logits: torch.Tensor, token_ids: torch.Tensor) -> torch.Tensor:
    """Natural log-probability of each chosen token.

    Args:
        logits: [..., V]. token_ids: [...] int64.

    Returns:
        [...].
    """
    return logits.gather(-1, token_ids.unsqueeze(-1)).squeeze(-1) - logits.logsumexp(dim=-1)


def logprobs_and_entropy(logits: torch.Tensor, token_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probability of each chosen token, and the entropy of softmax(logits), in nats, from one logsumexp.

    Args:
        logits: [N, V] float32 or float64, finite. token_ids: [N] int64.

    Returns:
        [N], and [N] without a gradient. Forward and backward each need one [N, V] tensor; the logits are not
        kept.
    """
    logprobs, entropy = _LogprobsAndEntropy.apply(logits, token_ids)
    return logprobs, entropy


def head_logprobs(
    states: torch.Tensor,
    token_ids: torch.Tensor,
    head: Callable[[torch.Tensor], torch.Tensor],
    *,
    temperature: float = 1.0,
    with_entropy: bool = True,
    logits_at_once: int = LOGITS_AT_ONCE,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probability and entropy under softmax(head(states) / temperature), some positions at a time.

    No more than `logits_at_once` logits (and a gradient of that size) are in memory; where there are more,
    those of a chunk are computed again for the gradient.

    Args:
        states: [N, H] hidden states. token_ids: [N] int64, the tokens they predict.
        head: [n, H] → [n, V] logits; any dtype, computed on in float32 at least.

    Returns:
        [N] differentiable in states and head, and [N] entropy without a gradient, or 0 where it is not asked
        for.
    """

    def measure(states: torch.Tensor, token_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = head(states)
        exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
        exact = exact if temperature == 1.0 else exact / temperature
        if with_entropy:
            return logprobs_and_entropy(exact, token_ids)
        return token_logprobs(exact, token_ids), exact.new_zeros(len(token_ids))

    if not len(token_ids):
        empty = states.new_zeros(0, dtype=torch.promote_types(states.dtype, torch.float32))
        return empty + states.sum(), empty
    with torch.no_grad():
        vocabulary = head(states[:1]).shape[-1]
    size = max(1, logits_at_once // vocabulary)
    if len(token_ids) <= size:
        return measure(states, token_ids)
    chunks = zip(states.split(size), token_ids.split(size), strict=True)
    if torch.is_grad_enabled():
        parts = [checkpoint(measure, *chunk, use_reentrant=False) for chunk in chunks]
    else:
        parts = [measure(*chunk) for chunk in chunks]
    logprobs, entropy = zip(*parts, strict=True)
    return torch.cat(logprobs), torch.cat(entropy)


class _LogprobsAndEntropy(torch.autograd.Function):
    """∂ logprob / ∂ logits = onehot - softmax, written into one tensor."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, token_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logsumexp = logits.logsumexp(dim=-1)
        probabilities = (logits - logsumexp.unsqueeze(-1)).exp_()
        entropy = logsumexp - torch.linalg.vecdot(probabilities, logits)
        ctx.save_for_backward(probabilities, token_ids)
        ctx.mark_non_differentiable(entropy)
        return logits.gather(-1, token_ids.unsqueeze(-1)).squeeze(-1) - logsumexp, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        probabilities, token_ids = ctx.saved_tensors
        upstream = grads[0].unsqueeze(-1)
        gradient = probabilities * -upstream
        return gradient.scatter_add_(-1, token_ids.unsqueeze(-1), upstream), None
