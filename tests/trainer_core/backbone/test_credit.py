"""What a step's rewards, greedy answers and KL become, token by token."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.trainer_core.engine.flat import flat_batch
from trainer_core.backbone.credit import episode_advantages, token_advantages
from trainer_core.config.schema import Ajet
from trainer_core.types import Batch, Episode, Task


def episodes(*rewards: float | None, task: str = "a") -> list[Episode]:
    return [Episode(Task(task, "?"), n, (), reward=reward) for n, reward in enumerate(rewards)]


def batch_of(*lengths: int) -> Batch:
    """One sequence per length: a token of prompt, the rest trained."""
    return flat_batch([([1] * (1 + n), [False] + [True] * n) for n in lengths])


def advantages(
    found: list[Episode], greedy: list[Episode], batch: Batch, **algorithm: Any
) -> tuple[list[float], dict[str, float]]:
    ajet = Ajet.model_validate({"trainer_common": {"algorithm": algorithm}})
    run: Any = SimpleNamespace(ajet=ajet)
    per_token, metrics = token_advantages(run, 1, found, greedy, batch, torch.arange(len(found)))
    return per_token[batch.trained].tolist(), metrics


def test_remax_compares_with_the_greedy_answer_of_the_same_task() -> None:
    found = episodes(1.0, 0.0) + episodes(1.0, task="b") + episodes(0.5, task="c")
    greedy = episodes(0.25) + episodes(1.0, task="b")
    got, _ = advantages(found, greedy, batch_of(1, 2, 1, 1), adv_estimator="remax")
    assert got == [0.75, -0.25, -0.25, 0.0, 0.0]  # nothing is known of c


def test_a_greedy_answer_that_failed_is_no_baseline() -> None:
    failed = [Episode(Task("a", "?"), 0, (), reward=None, error="too long")]
    assert advantages(episodes(1.0, 0.0), failed, batch_of(1, 1), adv_estimator="remax")[0] == [0.0, 0.0]


def test_kl_is_taken_off_the_reward_and_reported_as_verl_does() -> None:
    batch = batch_of(1, 2)
    batch.old_logprobs[batch.trained] = torch.tensor([-1.0, -1.0, -2.0])
    batch = Batch(**vars(batch) | {"reference_logprobs": torch.full_like(batch.old_logprobs, -1.5)})
    options = {"use_kl_in_reward": True, "kl_ctrl": {"kl_coef": 0.1}, "norm_adv_by_std": False}
    got, metrics = advantages(episodes(1.0, 0.0), [], batch, **options)
    assert got == pytest.approx([0.475, -0.475, -0.475])  # rewards 0.95 and 0.0
    assert metrics["actor/reward_kl_penalty"] == pytest.approx(0.25)  # of 0.5 and 0.0
    assert metrics["actor/reward_kl_penalty_coeff"] == 0.1


def test_gamma_discounts_per_token() -> None:
    batch = batch_of(2, 2)
    flat, _ = advantages(episodes(1.0, 0.0), [], batch, adv_estimator="reinforce_plus_plus")
    bent, _ = advantages(episodes(1.0, 0.0), [], batch, adv_estimator="reinforce_plus_plus", gamma=0.5)
    assert flat[0] == flat[1] and bent[0] < bent[1]


def test_an_episode_has_the_mean_advantage_of_its_trained_tokens() -> None:
    batch = batch_of(2, 1, 0, 3)  # sequences of the episodes 0, 0, 1 and 3
    advantage = torch.full_like(batch.old_logprobs, 99.0)
    advantage[batch.trained] = torch.tensor([1.0, 2.0, 6.0, -1.0, -1.0, 0.5])
    batch = Batch(**vars(batch) | {"advantage": advantage})
    first, *others = episode_advantages(batch, torch.tensor([0, 0, 1, 3]), 4)
    assert (first, others[2]) == (3.0, -0.5)
    assert others[0] != others[0] and others[1] != others[1]
