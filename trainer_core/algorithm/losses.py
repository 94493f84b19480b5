"""Policy losses per token. How they become one number is in the weights of the tokens (`weights.py`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from trainer_core.algorithm.kl import kl_estimate
from trainer_core.algorithm.names import unknown
from trainer_core.types import Loss, LossName

Result = tuple[torch.Tensor, dict[str, torch.Tensor]]
"""[T] losses, differentiable, and metrics: names → [T], each reported as its mean."""


def policy_loss(
    loss: Loss,
    logprobs: torch.Tensor,
    old_logprobs: torch.Tensor,
    advantage: torch.Tensor,
    segment: torch.Tensor,
    reference_logprobs: torch.Tensor | None = None,
) -> Result:
    """The loss of each of T trained tokens: policy loss + kl_coef · KL from the reference.

    Args:
        logprobs: [T] under the policy being trained.
        old_logprobs, reference_logprobs: [T] under the policy the update starts from, and the frozen start.
        advantage: [T].
        segment: [T] int64, the sequence of each token; all trained tokens of a sequence are here (`gspo`).

    Metrics: `actor/pg_loss` (without KL), `actor/ppo_kl` (old - new log-probability), `actor/pg_clipfrac` and
    `actor/pg_clipfrac_lower` where the loss clips, `actor/kl_loss` where there is a KL term.

    Raises:
        ValueError: unknown loss, or a KL term without reference.
    """
    if loss.name not in _LOSSES:
        raise unknown("loss", loss.name, _LOSSES)
    if loss.kl_coef and reference_logprobs is None:
        raise ValueError("kl_coef needs the reference's log-probabilities")
    losses, diagnostics = _LOSSES[loss.name](_Tokens(logprobs, old_logprobs, advantage, segment), loss)
    metrics = {"pg_loss": losses, "ppo_kl": old_logprobs - logprobs} | diagnostics
    if loss.kl_coef and reference_logprobs is not None:
        kl = kl_estimate(logprobs, reference_logprobs, loss.kl_estimator)
        losses = losses + loss.kl_coef * kl
        metrics["kl_loss"] = kl
    return losses, {f"actor/{name}": each.detach() for name, each in metrics.items()}


@dataclass(frozen=True)
class _Tokens:
    """T trained tokens."""

    logprobs: torch.Tensor
    old_logprobs: torch.Tensor
    advantage: torch.Tensor
    segment: torch.Tensor

    @property
    def log_ratio(self) -> torch.Tensor:
        """Clamped to ±20, as verl does."""
        return (self.logprobs - self.old_logprobs).clamp(-20.0, 20.0)


def _ppo(tokens: _Tokens, loss: Loss) -> Result:
    """-min(ratio · A, clip(ratio, 1 - clip_low, 1 + clip_high) · A), and where A < 0 at most -dual_clip · A,
    so that one very unlikely token cannot blow up the step.

    Source: PPO, arXiv 1707.06347, eq. 7; separate bounds from DAPO, arXiv 2503.14476; dual clip from arXiv
    1912.09729, eq. 5; verl `compute_policy_loss_vanilla`.
    """
    advantage = tokens.advantage
    ratio = tokens.log_ratio.exp()
    plain, bounded = -advantage * ratio, -advantage * ratio.clamp(1 - loss.clip_low, 1 + loss.clip_high)
    pessimistic = torch.maximum(plain, bounded)
    limit = -advantage * loss.dual_clip
    losses = torch.where(advantage < 0, torch.minimum(pessimistic, limit), pessimistic)
    too_low = (pessimistic > limit) & (advantage < 0)
    return losses, {
        "ppo_kl": -tokens.log_ratio,
        "pg_clipfrac": (bounded > plain).to(ratio.dtype),
        "pg_clipfrac_lower": too_low.to(ratio.dtype),
    }


def _gspo(tokens: _Tokens, loss: Loss) -> Result:
    """PPO's surrogate without dual clip, with one ratio per sequence, exp of its mean log-ratio (at most
    e^10); the gradient flows through each token's own log-probability.

    A sequence is a segment: the branches of an episode that forked have a ratio each.
    Source: GSPO-token, arXiv 2507.18071; verl `compute_policy_loss_gspo`.
    """
    log_ratio = (tokens.logprobs - tokens.old_logprobs).detach()
    sums, counts = torch.bincount(tokens.segment, log_ratio), torch.bincount(tokens.segment)
    of_sequence = (sums / counts.clamp(min=1))[tokens.segment]
    ratio = (tokens.logprobs - tokens.logprobs.detach() + of_sequence).clamp(max=10.0).exp()
    plain = -tokens.advantage * ratio
    bounded = -tokens.advantage * ratio.clamp(1 - loss.clip_low, 1 + loss.clip_high)
    return torch.maximum(plain, bounded), {"pg_clipfrac": (bounded > plain).to(ratio.dtype)}


def _cispo(tokens: _Tokens, loss: Loss) -> Result:
    """-sg[clip(ratio, 1 - clip_low, 1 + clip_high)] · A · logprob: every token keeps a gradient.

    Source: MiniMax-M1, arXiv 2506.13585; verl `compute_policy_loss_cispo`.
    """
    ratio = tokens.log_ratio.detach().exp()
    clipped = ratio.clamp(1 - loss.clip_low, 1 + loss.clip_high)
    losses = -clipped * tokens.advantage * tokens.logprobs
    return losses, {"ppo_kl": -tokens.log_ratio, "pg_clipfrac": (ratio != clipped).to(ratio.dtype)}


def _sapo(tokens: _Tokens, loss: Loss) -> Result:
    """-A · sigmoid(tau · (ratio - 1)) · 4/tau: a smooth gate in place of the clip, tau by the sign of A.

    Source: SAPO, arXiv 2511.20347; verl `compute_policy_loss_sapo`.
    """
    advantage = tokens.advantage
    tau = torch.where(advantage > 0, loss.tau_positive, torch.full_like(advantage, loss.tau_negative))
    gate = torch.sigmoid(tau * (tokens.log_ratio.exp() - 1.0)) * (4.0 / tau)
    return -gate * advantage, {"ppo_kl": -tokens.log_ratio}


def _dro(tokens: _Tokens, loss: Loss) -> Result:
    """-(A · logprob - beta/2 · (log-ratio)²).

    Source: DRO, arXiv 2405.19107; verl `compute_policy_loss_dro`.
    """
    log_ratio = tokens.logprobs - tokens.old_logprobs
    return -(tokens.logprobs * tokens.advantage - 0.5 * loss.beta * log_ratio.square()), {}


def _importance_sampling(tokens: _Tokens, loss: Loss) -> Result:
    """-ratio · A, not clipped; its gradient at ratio 1 is REINFORCE's. Source: Tinker's loss of this name."""
    return -tokens.log_ratio.exp() * tokens.advantage, {"ppo_kl": -tokens.log_ratio}


def _cross_entropy(tokens: _Tokens, loss: Loss) -> Result:
    """-logprob: supervised learning; the advantage is not looked at. Source: Tinker's loss of this name."""
    return -tokens.logprobs, {}


_LOSSES: dict[LossName, Callable[[_Tokens, Loss], Result]] = {
    "ppo": _ppo,
    "gspo": _gspo,
    "cispo": _cispo,
    "sapo": _sapo,
    "dro": _dro,
    "importance_sampling": _importance_sampling,
    "cross_entropy": _cross_entropy,
}
