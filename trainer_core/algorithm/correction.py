"""Rollout correction: the policy that sampled is not quite the one the update starts from (another engine,
lower precision, older weights), so tokens are weighed by the ratio of the two, or left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch

from trainer_core.algorithm.names import unknown
from trainer_core.types import RejectionStatistic


@dataclass(frozen=True)
class Correction:
    """Which correction."""

    level: Literal["token", "sequence"] | None = "token"
    """Weigh by the ratio of each token (small variance, some bias), or by its product over the sequence (no
    bias, large variance); None: do not weigh."""
    upper: float = 2.0
    """Ratios above it count as this much."""
    lower: float | None = None
    """Where given, ratios outside [lower, upper] count 0 (IcePop)."""
    reject: RejectionStatistic | None = None
    """Leave out tokens or sequences by this statistic."""
    reject_above: float = 2.0
    """For k1 a ratio π_rollout/π_train, for k2 and k3 nats."""
    reject_below: float | None = None
    """Of k1; None: 1 / reject_above."""


@dataclass(frozen=True)
class Corrected:
    """What becomes of T tokens."""

    factors: torch.Tensor
    """[T] to be multiplied into the weight; 0 where not trained."""
    kept: torch.Tensor
    """[T] bool, trained and not rejected. Pass it to `token_weights` as `trained`, so that rejected tokens
    leave the means as well (verl's way)."""
    metrics: dict[str, float]
    """verl's `rollout_corr/…`: `kl` and `k3_kl` of KL(rollout ‖ train) in nats, the factors' mean, effective
    sample size (1: all the same) and share above the upper bound, the share of rejected tokens."""


def rollout_correction(
    logprobs: torch.Tensor,
    rollout_logprobs: torch.Tensor,
    trained: torch.Tensor,
    segment: torch.Tensor,
    correction: Correction = Correction(),
) -> Corrected:
    """Weigh and reject tokens. Equal log-probabilities give factors of exactly 1 and reject nothing.

    Args:
        logprobs, rollout_logprobs: [T] of the same tokens, under the policy that the update starts from and
            under the one that sampled. trained: [T] bool. segment: [T] int64, the sequence of each token.

    The factors weigh a KL term as well, where the loss has one (verl: the policy loss alone).

    Source: verl `rollout_corr_helper`; truncation from "Your efficient RL framework secretly brings you
    off-policy RL training" (Yao et al. 2025).

    Raises:
        ValueError: unknown statistic, or bounds that are not positive.
    """
    known = get_args(RejectionStatistic)
    if correction.reject not in (None, *known):
        raise unknown("rejection statistic", str(correction.reject), known)
    given = (correction.upper, correction.reject_above, correction.lower, correction.reject_below)
    if (least := min(bound for bound in given if bound is not None)) <= 0:
        raise ValueError(f"the bounds of a rollout correction are ratios or nats above 0, got {least}")
    log_ratio = torch.where(trained, logprobs.double() - rollout_logprobs.double(), 0.0)
    factors, kept = trained.double(), trained
    metrics: dict[str, float] = {}
    if not trained.any():
        return Corrected(factors.to(logprobs.dtype), kept, metrics)
    metrics["rollout_corr/kl"] = float(-log_ratio[trained].mean())
    metrics["rollout_corr/k3_kl"] = float((log_ratio.exp() - log_ratio - 1.0)[trained].mean())
    if correction.level is not None:
        shared = log_ratio if correction.level == "token" else torch.bincount(segment, log_ratio)[segment]
        ratio = torch.where(trained, shared.clamp(-20.0, 20.0).exp(), 0.0)
        factors = ratio.clamp(max=correction.upper)
        if correction.lower is not None:
            factors = torch.where((ratio >= correction.lower) & (ratio <= correction.upper), ratio, 0.0)
        mean, square = float(factors[trained].mean()), float(factors[trained].square().mean())
        metrics |= {
            "rollout_corr/rollout_is_mean": mean,
            "rollout_corr/rollout_is_eff_sample_size": mean**2 / square if square else 0.0,
            "rollout_corr/rollout_is_ratio_fraction_high": float(
                (ratio[trained] > correction.upper).double().mean()
            ),
        }
    if correction.reject is not None:
        kept = kept & _inside(correction, log_ratio, trained, segment)
        share = 1.0 - kept.sum() / trained.sum()
        metrics["rollout_corr/rollout_rs_masked_fraction"] = float(share)
    return Corrected(factors.to(logprobs.dtype), kept, metrics)


def _inside(
    correction: Correction, log_ratio: torch.Tensor, trained: torch.Tensor, segment: torch.Tensor
) -> torch.Tensor:
    """[T] bool: the statistic of a token, or of its sequence, is within bounds."""
    level, _, estimator = str(correction.reject).rpartition("_")
    safe = log_ratio.clamp(-20.0, 20.0)
    values = {"k1": -safe, "k2": 0.5 * safe**2, "k3": safe.exp() - 1.0 - safe}[estimator]
    if level == "seq_max":
        sequences = torch.zeros_like(values)  # as many at most as tokens
        values = sequences.scatter_reduce(0, segment, values, "amax")[segment]
    elif level != "token":
        sums = torch.bincount(segment, values)
        counts = torch.bincount(segment, trained.double()).clamp(min=1)
        values = (sums if level == "seq_sum" else sums / counts)[segment]
    if estimator == "k1":
        below = correction.reject_below or 1 / correction.reject_above
        return (values >= math.log(below)) & (values <= math.log(correction.reject_above))
    return values <= correction.reject_above
