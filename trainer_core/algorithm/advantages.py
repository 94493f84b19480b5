"""From rewards to advantages.

The first functions compare the episodes of a group and give one number per episode; `advantages` gives one
per token, by the name of any estimator, and is what a loop calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from trainer_core.algorithm.names import unknown


def grpo_advantages(rewards: torch.Tensor, groups: torch.Tensor, *, norm_by_std: bool = True) -> torch.Tensor:
    """Group-relative advantages: (reward - mean of its group) / (std of its group + 1e-6).

    Args:
        rewards: [E] float. groups: [E] int, equal for episodes of the same task; any sizes, any order.
        norm_by_std: False leaves the division out (Dr. GRPO, arXiv 2503.20783).

    Returns:
        [E], computed in float64. The standard deviation is the sample's (n - 1). Equal rewards give exactly
        0. A group of one keeps its reward as it is (mean 0, std 1), as in verl's
        `compute_grpo_outcome_advantage`.

    Source: GRPO, arXiv 2402.03300, section 4.1.2.
    """
    centred, member_of, size = _centred(rewards, groups)
    scale = _scale(centred, member_of, size) if norm_by_std else 1.0
    return (centred / scale).to(rewards.dtype)


def rloo_advantages(rewards: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """Reward less the mean of the *others* in its group: n/(n - 1) · (reward - mean). [E], [E] → [E].

    A group of one keeps its reward. Source: RLOO, arXiv 2402.14740; verl `compute_rloo_outcome_advantage`.
    """
    centred, member_of, size = _centred(rewards, groups)
    return (centred * (size / (size - 1).clamp(min=1))[member_of]).to(rewards.dtype)


def opo_advantages(rewards: torch.Tensor, groups: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Reward less its group's mean weighted by length, the baseline of least variance. [E] each → [E].

    A group of one keeps its reward. Source: OPO, arXiv 2505.23585; verl `compute_opo_outcome_advantage`.
    """
    return _centred(rewards, groups, lengths)[0].to(rewards.dtype)


def grpo_passk_advantages(
    rewards: torch.Tensor, groups: torch.Tensor, *, norm_by_std: bool = True
) -> torch.Tensor:
    """(best - second best) / (std + 1e-6) for the best of a group, 0 for all others. [E], [E] → [E].

    A group of one gets 0 (verl refuses it). Source: arXiv 2503.19595; verl
    `compute_grpo_passk_outcome_advantage`.
    """
    centred, member_of, size = _centred(rewards, groups)
    best = _extreme(centred, member_of, len(size), "amax")
    is_best = centred == best[member_of]
    second = _extreme(torch.where(is_best, -torch.inf, centred), member_of, len(size), "amax")
    alone_on_top = (torch.bincount(member_of[is_best], minlength=len(size)) == 1) & (size > 1)
    lead = torch.where(alone_on_top, best - second, 0.0)[member_of]
    scale = _scale(centred, member_of, size) if norm_by_std else 1.0
    return torch.where(is_best, lead / scale, 0.0).to(rewards.dtype)


@dataclass(frozen=True)
class Outcomes:
    """What E episodes earned, and the tokens (T, in S sequences) that are held responsible.

    To compare sequences instead of episodes (verl's way, where a fork counts again for each branch), let
    every sequence be an episode: rewards and groups gathered by sequence, `episode_of_segment` 0 … S-1.
    """

    rewards: torch.Tensor
    """[E] float."""
    groups: torch.Tensor
    """[E] int, equal for episodes of the same task."""
    trained: torch.Tensor
    """[T] bool."""
    segment: torch.Tensor
    """[T] int64, the sequence of each token, ascending."""
    episode_of_segment: torch.Tensor
    """[S] int64."""
    penalty: torch.Tensor | None = None
    """[T] taken off the reward (`kl.kl_penalty`); 0 where not trained."""
    baselines: torch.Tensor | None = None
    """[E] reward of the greedy answer, for `remax`."""
    values: torch.Tensor | None = None
    """[T] of a critic, for `gae`."""
    norm_by_std: bool = True
    """Divide by the group's standard deviation (`grpo`, `grpo_passk`)."""
    gamma: float = 1.0
    """Discount per trained token (`reinforce_plus_plus`, `gae`)."""
    lam: float = 1.0
    """λ of `gae`."""

    @property
    def episode(self) -> torch.Tensor:
        """[T] the episode of each token."""
        return self.episode_of_segment[self.segment]

    def lengths(self) -> torch.Tensor:
        """[E] trained tokens of each episode."""
        return torch.bincount(self.episode[self.trained], minlength=len(self.rewards))

    def net_rewards(self) -> torch.Tensor:
        """[E] float64 rewards less the penalties of all the episode's tokens."""
        rewards = self.rewards.double()
        if self.penalty is None:
            return rewards
        penalty = torch.where(self.trained, self.penalty.double(), 0.0)
        return rewards - torch.bincount(self.episode, penalty, len(rewards))

    def token_rewards(self) -> torch.Tensor:
        """[T] float64: the episode's reward on the last trained token of each of its sequences, less the
        penalty of each token."""
        place = torch.arange(len(self.segment), device=self.segment.device)
        last = torch.full_like(self.episode_of_segment, -1)
        last = last.scatter_reduce(0, self.segment, torch.where(self.trained, place, -1), "amax")
        at_end = self.trained & (place == last[self.segment])
        rewards = torch.where(at_end, self.rewards.double()[self.episode], 0.0)
        return rewards if self.penalty is None else rewards - self.penalty.double()


def advantages(estimator: str, outcomes: Outcomes) -> torch.Tensor:
    """The advantage of each token. Estimators: `names.ESTIMATOR_NAMES`.

    Returns:
        [T] of the rewards' dtype; 0 where not trained.

    Raises:
        ValueError: unknown estimator, or one that needs baselines or values that are not there.
    """
    if estimator not in ESTIMATORS:
        raise unknown("advantage estimator", estimator, ESTIMATORS)
    return ESTIMATORS[estimator](outcomes).to(outcomes.rewards.dtype)


def gae(outcomes: Outcomes) -> tuple[torch.Tensor, torch.Tensor]:
    """Generalised advantage estimation over the trained tokens of each sequence; what lies between them
    (observations) takes no step. For backbones that bring a critic; `local` has none and refuses it.

    Returns:
        [T] advantages, whitened over all trained tokens, and [T] returns, the critic's targets; both 0 where
        not trained.

    Source: GAE, arXiv 1506.02438, eq. 16; verl `compute_gae_advantage_return`.
    """
    if outcomes.values is None:
        raise ValueError("gae needs the values of a critic; without one use grpo or rloo")
    trained, values = outcomes.trained, outcomes.values.double()
    value, of = values[trained], outcomes.segment[trained]
    following = torch.zeros_like(value)
    following[:-1] = torch.where(of[1:] == of[:-1], value[1:], 0.0)
    delta = torch.zeros_like(values)
    delta[trained] = outcomes.token_rewards()[trained] + outcomes.gamma * following - value
    advantage = _discounted_sum(delta, outcomes, outcomes.gamma * outcomes.lam)
    return _whiten(advantage, trained), torch.where(trained, advantage + values, 0.0)


def _reinforce_plus_plus(outcomes: Outcomes) -> torch.Tensor:
    """Discounted return from each token on, whitened over all trained tokens; longer answers weigh more.

    Source: REINFORCE++, arXiv 2501.03262; verl `compute_reinforce_plus_plus_outcome_advantage`.
    """
    returns = _discounted_sum(outcomes.token_rewards(), outcomes, outcomes.gamma)
    return _whiten(returns, outcomes.trained)


def _reinforce_plus_plus_baseline(outcomes: Outcomes) -> torch.Tensor:
    """Reward less its group's mean, whitened over all trained tokens.

    Source: REINFORCE++, arXiv 2501.03262; verl `compute_reinforce_plus_plus_baseline_outcome_advantage`.
    """
    centred, _, _ = _centred(outcomes.net_rewards(), outcomes.groups)
    return _whiten(_to_tokens(centred, outcomes), outcomes.trained)


def _remax(outcomes: Outcomes) -> torch.Tensor:
    """Return from each token on, less the reward of the greedy answer.

    Source: ReMax, arXiv 2310.10505; verl `compute_remax_outcome_advantage`.
    """
    if outcomes.baselines is None:
        raise ValueError("remax needs baselines: the reward of each task's greedy answer")
    returns = _discounted_sum(outcomes.token_rewards(), outcomes, 1.0)
    return returns - _to_tokens(outcomes.baselines.double(), outcomes)


ESTIMATORS: dict[str, Callable[[Outcomes], torch.Tensor]] = {
    "grpo": lambda o: _to_tokens(grpo_advantages(o.net_rewards(), o.groups, norm_by_std=o.norm_by_std), o),
    "rloo": lambda o: _to_tokens(rloo_advantages(o.net_rewards(), o.groups), o),
    "reinforce_plus_plus": _reinforce_plus_plus,
    "reinforce_plus_plus_baseline": _reinforce_plus_plus_baseline,
    "remax": _remax,
    "opo": lambda o: _to_tokens(opo_advantages(o.net_rewards(), o.groups, o.lengths()), o),
    "grpo_passk": lambda o: _to_tokens(
        grpo_passk_advantages(o.net_rewards(), o.groups, norm_by_std=o.norm_by_std), o
    ),
    "gae": lambda o: gae(o)[0],
}


def _to_tokens(per_episode: torch.Tensor, outcomes: Outcomes) -> torch.Tensor:
    return torch.where(outcomes.trained, per_episode[outcomes.episode], 0.0)


def _centred(
    rewards: torch.Tensor, groups: torch.Tensor, weights: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """[E] float64 reward less its group's (weighted) mean, or as it is in a group of one; [E] the group of
    each, 0 … G-1; [G] the size of each.

    The mean is taken of what exceeds the group's smallest reward, so that equal rewards give exactly 0.
    """
    if rewards.shape != groups.shape or rewards.dim() != 1:
        raise ValueError(
            f"rewards and groups must both be [E], got {tuple(rewards.shape)} and {tuple(groups.shape)}"
        )
    _, member_of, counts = torch.unique(groups, return_inverse=True, return_counts=True)
    size = counts.double()
    exact = rewards.double()
    excess = exact - _extreme(exact, member_of, len(size), "amin")[member_of]
    weight = torch.ones_like(exact) if weights is None else weights.double()
    total = torch.bincount(member_of, weight)
    mean = torch.bincount(member_of, weight * excess) / torch.where(total > 0, total, 1.0)
    return torch.where(size[member_of] == 1, exact, excess - mean[member_of]), member_of, size


def _scale(centred: torch.Tensor, member_of: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
    """[E] the sample standard deviation (n - 1) of each one's group, 1 in a group of one; and verl's 1e-6."""
    variance = torch.bincount(member_of, centred**2) / (size - 1).clamp(min=1)
    return torch.where(size == 1, 1.0, variance.sqrt())[member_of] + 1e-6


def _extreme(values: torch.Tensor, index: torch.Tensor, size: int, which: str) -> torch.Tensor:
    return values.new_zeros(size).scatter_reduce(0, index, values, which, include_self=False)


def _whiten(values: torch.Tensor, trained: torch.Tensor) -> torch.Tensor:
    """[T] (value - mean) / sqrt(variance + 1e-8) over the trained tokens, variance with n - 1; 0 elsewhere,
    and exactly 0 where all are equal. Source: verl `masked_whiten`."""
    whitened, chosen = torch.zeros_like(values), values[trained]
    if len(chosen):
        excess = chosen - chosen.min()
        centred = excess - excess.mean()
        variance = centred.square().sum() / max(len(chosen) - 1, 1)
        whitened[trained] = centred * torch.rsqrt(variance + 1e-8)
    return whitened


def _discounted_sum(values: torch.Tensor, outcomes: Outcomes, factor: float) -> torch.Tensor:
    """[T] value of each trained token + factor · the same of the next one in its sequence; 0 elsewhere."""
    chosen, of = values[outcomes.trained], outcomes.segment[outcomes.trained]
    lengths = torch.bincount(of)
    place = torch.arange(len(chosen), device=values.device) - (lengths.cumsum(0) - lengths)[of]
    longest = int(lengths.max()) if len(lengths) else 0
    rows = values.new_zeros(len(lengths), longest)
    rows[of, place] = chosen
    for step in range(longest - 2, -1, -1):
        rows[:, step] += factor * rows[:, step + 1]
    sums = torch.zeros_like(values)
    sums[outcomes.trained] = rows[of, place]
    return sums
