"""Advantages beside verl's, beside loops that say the same, and in the corners."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trainer_core.algorithm.conftest import Frozen, close
from trainer_core.algorithm.advantages import (
    ESTIMATORS,
    Outcomes,
    advantages,
    gae,
    grpo_advantages,
    grpo_passk_advantages,
    opo_advantages,
    rloo_advantages,
)
from trainer_core.algorithm.kl import kl_penalty
from trainer_core.algorithm.names import ESTIMATOR_NAMES

VERLS: list[tuple[str, str, dict[str, Any]]] = [
    ("grpo, std", "grpo", {}),
    ("grpo, no std", "grpo", {"norm_by_std": False}),
    ("grpo_passk, std", "grpo_passk", {}),
    ("grpo_passk, no std", "grpo_passk", {"norm_by_std": False}),
    ("rloo", "rloo", {}),
    ("opo", "opo", {}),
    ("remax", "remax", {}),
    ("reinforce_plus_plus_baseline", "reinforce_plus_plus_baseline", {}),
    ("reinforce_plus_plus, gamma 1.0", "reinforce_plus_plus", {}),
    ("reinforce_plus_plus, gamma 0.9", "reinforce_plus_plus", {"gamma": 0.9}),
    ("gae, gamma 1.0, lam 0.95", "gae", {"lam": 0.95}),
    ("gae, gamma 0.9, lam 0.95", "gae", {"gamma": 0.9, "lam": 0.95}),
]


def f64(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(("result", "name", "numbers"), VERLS)
def test_advantages_of_tokens_are_verls_with_a_kl_penalty(
    frozen: Frozen, result: str, name: str, numbers: dict[str, Any]
) -> None:
    penalty = kl_penalty(frozen.flat("old"), frozen.flat("ref"), frozen.trained, coef=0.1, kind="low_var_kl")
    outcomes = frozen.outcomes(
        penalty=penalty, baselines=frozen.given("rewards").flip(0), values=frozen.flat("values"), **numbers
    )
    close(frozen.padded(advantages(name, outcomes)), frozen.verl(result)[0])


def test_targets_of_the_critic_are_verls(frozen: Frozen) -> None:
    penalty = kl_penalty(frozen.flat("old"), frozen.flat("ref"), frozen.trained, coef=0.1, kind="low_var_kl")
    _, returns = gae(frozen.outcomes(penalty=penalty, values=frozen.flat("values"), gamma=0.9, lam=0.95))
    close(frozen.padded(returns), frozen.verl("gae, gamma 0.9, lam 0.95")[1])


def test_the_table_of_names_is_the_table_of_functions() -> None:
    assert tuple(ESTIMATORS) == ESTIMATOR_NAMES


@pytest.mark.parametrize(("by_std", "name"), [(True, "grpo_std"), (False, "grpo_nostd(dr)")])
def test_grpo_with_groups_of_one_is_verls(frozen: Frozen, by_std: bool, name: str) -> None:
    names = sorted(set(frozen.table["group"]))
    groups = torch.tensor([names.index(group) for group in frozen.table["group"]])
    close(grpo_advantages(f64(frozen.table["rewards"]), groups, norm_by_std=by_std), frozen.table[name])


@settings(max_examples=50)
@given(st.lists(st.tuples(st.floats(-5, 5), st.integers(0, 3)), min_size=1, max_size=24))
def test_grpo_equals_the_loop_over_groups(pairs: list[tuple[float, int]]) -> None:
    rewards, groups = f64([reward for reward, _ in pairs]), torch.tensor([group for _, group in pairs])
    expected = torch.empty_like(rewards)
    for group in groups.unique():
        of_group = rewards[groups == group]
        mean, std = (of_group.mean(), of_group.std()) if len(of_group) > 1 else (f64(0.0), f64(1.0))
        expected[groups == group] = (of_group - mean) / (std + 1e-6)
    torch.testing.assert_close(grpo_advantages(rewards, groups), expected, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize(("count", "reward"), [(16, 0.7), (8, 1 / 3), (7, 0.1), (2, 1e6 + 0.1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["grpo", "rloo", "opo", "grpo_passk", "reinforce_plus_plus_baseline"])
def test_equal_rewards_give_exactly_zero(name: str, dtype: torch.dtype, count: int, reward: float) -> None:
    outcomes = Outcomes(
        torch.full((count,), reward, dtype=dtype),
        torch.zeros(count, dtype=torch.int64),
        torch.ones(count, dtype=torch.bool),
        torch.arange(count),
        torch.arange(count),
    )
    assert not advantages(name, outcomes).any()


def test_the_standard_deviation_is_that_of_a_sample_and_eps_is_1e_6() -> None:
    got = grpo_advantages(f64([0, 1]), torch.tensor([5, 5]))
    torch.testing.assert_close(got, f64([-0.5, 0.5]) / (0.5**0.5 + 1e-6), atol=1e-15, rtol=0)


@pytest.mark.parametrize(
    ("advantage", "expected"),
    [
        (grpo_advantages, 0.7 / (1 + 1e-6)),
        (rloo_advantages, 0.7),
        (lambda rewards, groups: opo_advantages(rewards, groups, torch.tensor([3, 1, 1])), 0.7),
        (grpo_passk_advantages, 0.0),
    ],
)
def test_a_group_of_one_beside_a_group_of_two(advantage: Any, expected: float) -> None:
    got = advantage(f64([0.7, 1.0, 0.0]), torch.tensor([9, 2, 2]))
    close(got[0], expected, 1e-12)
    assert got[1] > 0 >= got[2]


def test_two_that_share_the_best_place_lead_nobody() -> None:
    assert not grpo_passk_advantages(f64([1, 1, 0]), torch.zeros(3, dtype=torch.int64)).any()


def forked() -> dict[str, torch.Tensor]:
    """Two episodes of one task: the first forked into sequences of 2 and 1 trained tokens."""
    return {
        "rewards": f64([1.0, 0.0]),
        "groups": torch.tensor([3, 3]),
        "trained": torch.tensor([0, 1, 1, 0, 1, 0, 1, 0], dtype=torch.bool),
        "segment": torch.tensor([0, 0, 0, 1, 1, 2, 2, 2]),
        "episode_of_segment": torch.tensor([0, 0, 1]),
    }


def test_a_fork_counts_once_for_the_group_and_every_branch_gets_the_episodes_advantage() -> None:
    got = advantages("grpo", Outcomes(**forked(), norm_by_std=False))
    close(got, [0, 0.5, 0.5, 0, 0.5, 0, -0.5, 0], 0)


def test_compared_by_sequence_a_fork_counts_for_each_branch() -> None:
    given = forked()
    episode = given["episode_of_segment"]
    by_sequence = {"rewards": given["rewards"][episode], "groups": given["groups"][episode]}
    outcomes = Outcomes(**given | by_sequence | {"episode_of_segment": torch.arange(3)}, norm_by_std=False)
    close(advantages("grpo", outcomes), torch.tensor([0, 1, 1, 0, 1, 0, -2, 0]) / 3)


def test_every_branch_of_a_fork_ends_in_the_reward() -> None:
    close(Outcomes(**forked()).token_rewards(), [0, 0, 1, 0, 1, 0, 0, 0], 0)


def test_a_penalty_is_taken_off_the_whole_episode() -> None:
    penalty = f64([torch.nan, 0.1, 0.2, torch.nan, 0.3, torch.nan, 0.0, torch.nan])
    close(Outcomes(**forked(), penalty=penalty).net_rewards(), [0.4, 0.0], 1e-12)


def test_returns_pass_over_observations_undiscounted_and_stay_in_their_sequence() -> None:
    trained, segment = torch.tensor([1, 0, 1, 1, 1], dtype=torch.bool), torch.tensor([0, 0, 0, 1, 1])
    groups = torch.zeros(2, dtype=torch.int64)
    outcomes = Outcomes(
        f64([1, 5]), groups, trained, segment, torch.arange(2), values=f64([0] * 5), gamma=0.5
    )
    close(gae(outcomes)[1], [0.5, 0, 1, 2.5, 5], 0)


@pytest.mark.parametrize("name", ESTIMATOR_NAMES)
@pytest.mark.parametrize("count", [0, 1])
def test_none_or_one_trained_token_is_no_error(name: str, count: int) -> None:
    trained = torch.tensor([False, count > 0])
    outcomes = Outcomes(
        f64([0.7]), torch.tensor([0]), trained, torch.tensor([0, 0]), torch.tensor([0]),
        baselines=f64([0.0]), values=f64([0.0, 0.2]),
    )  # fmt: skip
    got = advantages(name, outcomes)
    assert torch.isfinite(got).all() and not got[~trained].any()


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("remax", "greedy"),
        ("gae", "critic"),
        ("gpg", "importance_sampling"),
        ("rloo_vectorized", "use rloo"),
        ("grop", "known: grpo"),
    ],
)
def test_what_cannot_be_computed_says_what_to_use(name: str, advice: str) -> None:
    with pytest.raises(ValueError, match=advice):
        advantages(name, Outcomes(**forked()))


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\[E\]"):
        grpo_advantages(torch.zeros(2, 2), torch.zeros(2, 2))
