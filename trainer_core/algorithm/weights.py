"""From an aggregation mode to the coefficient of each token's loss."""

from __future__ import annotations

from typing import get_args

import torch

from trainer_core.algorithm.names import unknown
from trainer_core.types import Aggregation


def token_weights(
    trained: torch.Tensor,
    segment: torch.Tensor,
    episode_of_segment: torch.Tensor,
    mode: Aggregation = "token-mean",
    *,
    horizon: int | None = None,
    episode_level: bool = False,
    dtype: torch.dtype = torch.float32,
) -> torch.Tensor:
    """The weights with which Σ weight · loss is the loss of the mini-batch they are computed over.

    Let sequence s, of episode e, have n_s trained tokens. A sequence without trained tokens does not count,
    nor does an episode without such sequences; of e count k_e sequences, with n_e tokens. The share of a
    sequence is c_s = 1, or with `episode_level` c_s = 1/k_e, so that the shares of an episode add up to 1 and
    C = Σ c_s is the number of episodes instead of that of sequences. A token of s weighs

        token-mean               c_s / Σ c·n         with `episode_level` an episode counts as many tokens as
                                                     its sequences have on average
        token-sum                c_s
        seq-mean-token-sum       c_s / C
        seq-mean-token-mean      c_s / (C · n_s)     (the original GRPO)
        seq-mean-token-sum-norm  c_s / (C · horizon) (Dr. GRPO)
        episode-mean             1 / (number of episodes · n_e), whatever `episode_level`: the mean over
                                 episodes of the mean over all their tokens

    So where each episode is one sequence, `episode_level` changes nothing.

    Args:
        trained: [T] bool.
        segment: [T] int64, the sequence of each token, 0 … S-1.
        episode_of_segment: [S] int64, the episode of each sequence; only equality matters.
        horizon: the constant of seq-mean-token-sum-norm; verl's default is the longest response allowed.

    Returns:
        [T]; 0 where not trained. All 0 where nothing is trained.

    Source: verl `core_algos.agg_loss`; shares as AgentJet's `loss_weight_normalization_episode_level`.

    Raises:
        ValueError: unknown mode, or no horizon where it is needed.
    """
    if mode not in get_args(Aggregation):
        raise unknown("aggregation", mode, get_args(Aggregation))
    if mode == "seq-mean-token-sum-norm" and not horizon:
        raise ValueError("seq-mean-token-sum-norm divides by a horizon: give the longest response allowed")
    _, episode = torch.unique(episode_of_segment, return_inverse=True)
    tokens = torch.bincount(segment[trained], minlength=len(episode)).double()
    counts = (tokens > 0).double()
    sequences_of_episode = torch.bincount(episode, counts)
    share = counts / sequences_of_episode[episode].clamp(min=1) if episode_level else counts
    total = share.sum().clamp(min=1)
    if mode == "token-mean":
        weight = share / (share * tokens).sum().clamp(min=1)
    elif mode == "token-sum":
        weight = share
    elif mode == "seq-mean-token-sum":
        weight = share / total
    elif mode == "seq-mean-token-mean":
        weight = share / (total * tokens.clamp(min=1))
    elif mode == "seq-mean-token-sum-norm":
        weight = share / (total * float(horizon or 0))
    else:
        tokens_of_episode = torch.bincount(episode, tokens)
        episodes = (tokens_of_episode > 0).sum().clamp(min=1)
        weight = counts / (episodes * tokens_of_episode[episode].clamp(min=1))
    return torch.where(trained, weight[segment], 0.0).to(dtype)
