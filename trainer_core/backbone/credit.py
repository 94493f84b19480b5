"""From what the episodes of a step earned to the advantage of each token."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf

import torch

from trainer_core.algorithm.advantages import Outcomes, advantages
from trainer_core.algorithm.kl import kl_penalty
from trainer_core.algorithm.weights import token_weights
from trainer_core.backbone.run import Run
from trainer_core.seeds import derive_seed
from trainer_core.types import Batch, Episode


def token_advantages(
    run: Run,
    step: int,
    episodes: SequenceOf[Episode],
    greedy: SequenceOf[Episode],
    batch: Batch,
    owner: torch.Tensor,
) -> tuple[torch.Tensor, dict[str, float]]:
    """[T] advantages and metrics; the control experiment first deals rewards to the wrong episodes.

    An episode that failed has no part in its group. `owner`: [S], the episode of each sequence. `greedy`: the
    likeliest answer to each task, for `remax`; where there is none, each of the task's episodes is compared
    with itself.
    """
    common = run.ajet.trainer_common
    counts = torch.tensor([_is_judged(one) for one in episodes])
    rewards = torch.tensor([float(one.reward or 0.0) for one in episodes], dtype=torch.float64)
    if common.algorithm.shuffle_rewards:
        seed = derive_seed(common.seed, "shuffled rewards", step)
        dealt = torch.randperm(int(counts.sum()), generator=torch.Generator().manual_seed(seed))
        rewards[counts] = rewards[counts][dealt]
    tasks = {task_id: number for number, task_id in enumerate({one.task.task_id: None for one in episodes})}
    groups = torch.tensor([tasks[one.task.task_id] for one in episodes])
    groups = torch.where(counts, groups, len(tasks) + torch.arange(len(episodes)))
    known = {one.task.task_id: one.reward for one in greedy if _is_judged(one)}
    baselines = torch.tensor(
        [known.get(one.task.task_id, own) for one, own in zip(episodes, rewards.tolist(), strict=True)],
        dtype=torch.float64,
    )
    penalty, metrics = _kl_penalty(run, batch, owner)
    if not common.advantage_estimation_episode_level:
        rewards, groups, baselines = rewards[owner], groups[owner], baselines[owner]
        owner = torch.arange(len(owner))
    outcomes = Outcomes(
        rewards,
        groups,
        batch.trained,
        batch.segment,
        owner,
        penalty,
        baselines,
        norm_by_std=common.algorithm.norm_adv_by_std,
        gamma=common.algorithm.gamma,
    )
    return advantages(common.algorithm.adv_estimator, outcomes).float(), metrics


def _is_judged(episode: Episode) -> bool:
    return episode.error is None and episode.reward is not None


def episode_advantages(batch: Batch, owner: torch.Tensor, count: int) -> list[float]:
    """The mean advantage of the trained tokens of each of `count` episodes; NaN where there are none."""
    of = owner[batch.segment[batch.trained]]
    sums = torch.bincount(of, batch.advantage[batch.trained].double(), count)
    means: list[float] = (sums / torch.bincount(of, minlength=count)).tolist()
    return means


def _kl_penalty(run: Run, batch: Batch, owner: torch.Tensor) -> tuple[torch.Tensor | None, dict[str, float]]:
    """[T] what tokens cost in reward, and verl's metrics of it; nothing where KL is not in the reward."""
    common = run.ajet.trainer_common
    if not common.algorithm.use_kl_in_reward or batch.reference_logprobs is None:
        return None, {}
    coef = common.algorithm.kl_ctrl.kl_coef
    penalty = kl_penalty(
        batch.old_logprobs, batch.reference_logprobs, batch.trained, coef=coef, kind=common.kl_penalty_type
    )
    mean = token_weights(batch.trained, batch.segment, owner, "seq-mean-token-mean")
    kl = float((mean * penalty).sum()) / coef
    return penalty, {"actor/reward_kl_penalty": kl, "actor/reward_kl_penalty_coeff": coef}
