"""Weights beside verl's aggregations, and what a fork, a micro-batch or an empty sequence may change."""

from typing import Any, get_args

import pytest
import torch

from tests.trainer_core.algorithm.conftest import Frozen, close
from trainer_core.algorithm.weights import token_weights
from trainer_core.types import Aggregation

MODES = get_args(Aggregation)


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "episode-mean"])
def test_the_weighted_sum_is_verls_aggregate(frozen: Frozen, mode: Any) -> None:
    horizon = frozen.given("mask").shape[1]
    weights = token_weights(frozen.trained, frozen.segment, frozen.alone, mode, horizon=horizon)
    total = (frozen.padded(weights) * frozen.given("advantage")).sum()
    close(total, frozen.verl(f"aggregation {mode}")[0])


def weights(mode: Any, episode_level: bool = False) -> torch.Tensor:
    """Episode 0: sequences of 3 and 1 trained tokens, and one of none; episode 1: one sequence of 2;
    episode 2: nothing trained."""
    segment = torch.tensor([0, 0, 0, 0, 1, 1, 2, 3, 3, 3, 4])
    trained = torch.tensor([0, 1, 1, 1, 0, 1, 0, 0, 1, 1, 0], dtype=torch.bool)
    got = token_weights(
        trained, segment, torch.tensor([0, 0, 0, 1, 2]), mode, horizon=10, episode_level=episode_level
    )
    assert not got[~trained].any()
    return got[trained].double()


@pytest.mark.parametrize(
    ("mode", "by_sequence", "by_episode"),
    [  # the weight of a token of: 3 tokens of episode 0, 1 token of it, 2 tokens of episode 1
        ("token-mean", (1 / 6, 1 / 6, 1 / 6), (1 / 8, 1 / 8, 1 / 4)),
        ("token-sum", (1, 1, 1), (1 / 2, 1 / 2, 1)),
        ("seq-mean-token-sum", (1 / 3, 1 / 3, 1 / 3), (1 / 4, 1 / 4, 1 / 2)),
        ("seq-mean-token-mean", (1 / 9, 1 / 3, 1 / 6), (1 / 12, 1 / 4, 1 / 4)),
        ("seq-mean-token-sum-norm", (1 / 30, 1 / 30, 1 / 30), (1 / 40, 1 / 40, 1 / 20)),
        ("episode-mean", (1 / 8, 1 / 8, 1 / 4), (1 / 8, 1 / 8, 1 / 4)),
    ],
)
def test_a_fork_by_sequence_and_by_episode(
    mode: str, by_sequence: tuple[float, ...], by_episode: tuple[float, ...]
) -> None:
    repeats = torch.tensor([3, 1, 2])
    close(weights(mode), torch.tensor(by_sequence).repeat_interleave(repeats), 1e-7)
    close(weights(mode, True), torch.tensor(by_episode).repeat_interleave(repeats), 1e-7)


@pytest.mark.parametrize("mode", MODES)
def test_where_every_episode_is_one_sequence_the_level_changes_nothing(frozen: Frozen, mode: Any) -> None:
    by_sequence, by_episode = (
        token_weights(frozen.trained, frozen.segment, frozen.alone * 7, mode, horizon=5, episode_level=level)
        for level in (False, True)
    )
    assert torch.equal(by_sequence, by_episode)


@pytest.mark.parametrize("mode", MODES)
def test_nothing_trained_weighs_nothing(mode: Any) -> None:
    got = token_weights(torch.zeros(3, dtype=torch.bool), torch.tensor([0, 0, 1]), torch.tensor([0, 1]), mode,
                        horizon=5, episode_level=True)  # fmt: skip
    assert not got.any()


def test_an_unknown_mode_and_a_missing_horizon_are_refused() -> None:
    one = torch.zeros(1, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"batch-max.*token-mean"):
        token_weights(one.bool(), one, one, "batch-max")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="longest response"):
        token_weights(one.bool(), one, one, "seq-mean-token-sum-norm")
