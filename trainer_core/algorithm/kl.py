"""KL(policy || reference) estimated from the log-probabilities of sampled tokens: in the loss, or taken off
the reward."""

from __future__ import annotations

import torch

from trainer_core.algorithm.names import KL_ESTIMATORS, unknown


def kl_estimate(logprobs: torch.Tensor, ref_logprobs: torch.Tensor, kind: str = "low_var_kl") -> torch.Tensor:
    """Per-token estimate of the KL divergence from the reference, in nats.

    With x = logprobs - ref_logprobs:  k1 = x,  abs = |x|,  k2 = x²/2,  k3 = exp(-x) + x - 1, where verl
    clamps -x to ±20 first and the result to ±10. k1 and k3 have the wrong gradient when used as a loss; with
    a trailing `+` the value stays and the gradient is that of k2, which is right in expectation.

    Args:
        logprobs, ref_logprobs: any equal shape.

    Returns:
        The same shape.

    Source: J. Schulman, "Approximating KL divergence" (2020); clamps and names as verl
    `core_algos.kl_penalty`.

    Raises:
        ValueError: unknown estimator.
    """
    name = kind.removesuffix("+")
    if name not in KL_ESTIMATORS:
        raise unknown("KL estimator", kind, [*KL_ESTIMATORS, "each also with a trailing '+'"])
    value = _value(logprobs - ref_logprobs, KL_ESTIMATORS[name])
    if not kind.endswith("+") or KL_ESTIMATORS[name] == "k2":
        return value
    gradient = 0.5 * (logprobs - ref_logprobs) ** 2
    return gradient - gradient.detach() + value.detach()


def kl_penalty(
    old_logprobs: torch.Tensor,
    ref_logprobs: torch.Tensor,
    trained: torch.Tensor,
    *,
    coef: float,
    kind: str = "kl",
) -> torch.Tensor:
    """What each token costs in reward for leaving the reference: coef · KL estimate.

    Args:
        old_logprobs, ref_logprobs: [T] under the policy that sampled, and the reference.
        trained: [T] bool; whatever stands elsewhere, NaN too, costs nothing.

    Returns:
        [T], for `Outcomes.penalty`; 0 where not trained. Its sum over an episode is what verl's
        `apply_kl_penalty` takes off that episode's reward.
    """
    kl = kl_estimate(
        torch.where(trained, old_logprobs, 0.0), torch.where(trained, ref_logprobs, 0.0), kind
    ).detach()
    return torch.where(trained, coef * kl, 0.0)


def _value(x: torch.Tensor, estimator: str) -> torch.Tensor:
    if estimator == "k1":
        return x
    if estimator == "abs":
        return x.abs()
    if estimator == "k2":
        return 0.5 * x**2
    minus_x = (-x).clamp(-20.0, 20.0)
    return (minus_x.exp() - minus_x - 1.0).clamp(-10.0, 10.0)
