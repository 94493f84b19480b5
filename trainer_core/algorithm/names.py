"""The names of what `algorithm/` offers, and what to use instead of what verl 0.9.1 has beside it.

Imports no torch, so that a config can be checked without it. The names of losses and aggregations are
`LossName` and `Aggregation` in `types.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

ESTIMATOR_NAMES = (
    "grpo",
    "rloo",
    "reinforce_plus_plus",
    "reinforce_plus_plus_baseline",
    "remax",
    "opo",
    "grpo_passk",
    "gae",
)
"""Advantage estimators; the formulas are in `advantages.py`."""

KL_ESTIMATORS: dict[str, str] = {
    "kl": "k1",
    "k1": "k1",
    "abs": "abs",
    "mse": "k2",
    "k2": "k2",
    "low_var_kl": "k3",
    "k3": "k3",
}
"""Names people use → short name. A trailing `+` (`k1+`, `low_var_kl+`) takes the gradient of k2."""

INSTEAD: dict[str, str] = {
    # advantage estimators
    "grpo_vectorized": "use grpo, which is computed that way",
    "rloo_vectorized": "use rloo, which is computed that way",
    "gpg": "use grpo without the division by the standard deviation, with the loss importance_sampling",
    "gdpo": "add the rewards up in the judge, and use reinforce_plus_plus_baseline",
    "optimal_token_baseline": "use opo, whose baseline is one number per group",
    "tir_optimal_token_baseline": "use opo, whose baseline is one number per group",
    # policy losses
    "vanilla": "use ppo",
    "bypass_mode": "use ppo with old_logprobs: rollout",
    "reinforce": "use importance_sampling",
    "geo_mean": "use gspo, which takes the same mean of log-ratios",
    "dppo_tv": "use ppo, whose clip bounds the ratio",
    "dppo_kl": "use ppo, whose clip bounds the ratio",
    "clip_cov": "use ppo with a higher clip_high",
    "kl_cov": "use ppo with a KL term",
    # KL estimators
    "full": "use low_var_kl: only the probabilities of the sampled tokens are known",
}
"""What verl knows and we do not offer → what to use."""


def unknown(kind: str, name: str, known: Iterable[str]) -> ValueError:
    """The error for a name that is not offered; it says what to use instead.

    Args:
        kind: what is named, such as "loss".
    """
    advice = INSTEAD.get(name) or f"known: {', '.join(known)}"
    return ValueError(f"unknown {kind} {name!r}; {advice}")
