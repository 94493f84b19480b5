"""Losses beside verl's."""

from typing import Any, get_args

import pytest
import torch

from tests.trainer_core.algorithm.conftest import Frozen, close
from trainer_core.algorithm.kl import kl_estimate
from trainer_core.algorithm.losses import policy_loss
from trainer_core.algorithm.weights import token_weights
from trainer_core.types import Loss, LossName

NAMES = get_args(LossName)


def f64(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("name", NAMES)
def test_losses_and_gradients_are_verls(frozen: Frozen, name: Any) -> None:
    at, trained = frozen.flat("new").requires_grad_(), frozen.trained
    loss = Loss(name=name, clip_low=0.2, clip_high=0.28, beta=0.07)
    mode: Any = "seq-mean-token-mean" if name in ("gspo", "sapo") else "token-mean"
    given = at, frozen.flat("old"), frozen.flat("advantage"), frozen.segment, frozen.flat("ref")
    losses, found = policy_loss(loss, *(each[trained] for each in given))
    weights = token_weights(trained, frozen.segment, frozen.alone, mode, dtype=torch.float64)
    total = (weights[trained] * losses).sum()
    total.backward()
    assert at.grad is not None
    value, gradient, *metrics = frozen.verl(f"loss {name}")
    close(total, value)
    close(frozen.padded(at.grad), gradient)
    means = {key: each.mean() for key, each in found.items()}
    names = [key for key in sorted(means) if key != "actor/pg_loss"]
    clips = ["actor/pg_clipfrac", "actor/pg_clipfrac_lower", "actor/ppo_kl"]
    known = {"gspo": [clips[0], clips[2]], "cispo": [clips[0], clips[2]], "ppo": clips}.get(name, [clips[2]])
    assert names == known
    if name not in ("importance_sampling", "cross_entropy"):
        for key, expected in zip(known, metrics, strict=True):
            close(means[key], expected)


@pytest.mark.parametrize("sign", ["+1", "-1"])
def test_the_clips_of_ppo_are_verls_and_dual_clip_is_for_negative_advantages(
    frozen: Frozen, sign: str
) -> None:
    logprobs = f64(frozen.table["ratios"]).log().requires_grad_()
    got = ppo(logprobs, torch.zeros_like(logprobs), torch.full_like(logprobs, float(sign)), clip_high=0.28)
    got.sum().backward()
    assert logprobs.grad is not None
    close(got, frozen.table[f"ppo_A={sign}"])
    close(logprobs.grad, frozen.table[f"ppo_grad_A={sign}"])


@pytest.mark.parametrize("name", NAMES)
def test_a_part_of_the_sequences_has_the_losses_it_has_in_the_whole(frozen: Frozen, name: Any) -> None:
    tokens = [frozen.flat(each) for each in ("new", "old", "advantage")] + [frozen.segment]
    tokens = [each[frozen.trained] for each in tokens]
    whole, _ = policy_loss(Loss(name=name), *tokens)
    part = (tokens[-1] % 3) == 1
    close(policy_loss(Loss(name=name), *(each[part] for each in tokens))[0], whole[part], 1e-12)


def ppo(logprobs: torch.Tensor, old: torch.Tensor, advantage: torch.Tensor, **numbers: float) -> torch.Tensor:
    segment = torch.zeros(len(logprobs), dtype=torch.int64)
    return policy_loss(Loss(**numbers), logprobs, old, advantage, segment)[0]  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_any_log_ratio_is_survived(name: Any) -> None:
    logprobs = f64([1e4, -1e4, 0.0]).requires_grad_()
    losses, _ = policy_loss(
        Loss(name=name), logprobs, torch.zeros_like(logprobs), -torch.ones(3), torch.zeros(3).long()
    )
    losses.sum().backward()
    assert logprobs.grad is not None
    assert torch.isfinite(losses).all() and torch.isfinite(logprobs.grad).all()


@pytest.mark.parametrize("name", ["ppo", "gspo", "cispo", "sapo", "importance_sampling"])
def test_on_policy_the_gradient_is_the_policy_gradient(name: Any) -> None:
    at, advantage = f64([-0.4, -0.9]).requires_grad_(), f64([0.7, -1.3])
    losses, _ = policy_loss(Loss(name=name), at, at.detach().clone(), advantage, torch.zeros(2).long())
    losses.sum().backward()
    assert at.grad is not None
    close(at.grad, -advantage, 1e-12)


def test_ppos_gradient_passes_a_finite_difference_check() -> None:
    old, advantage = f64([-0.4, -0.9]), f64([0.7, -1.3])
    assert torch.autograd.gradcheck(lambda x: ppo(x, old, advantage), ((old + 0.05).requires_grad_(),))


def test_gspo_has_one_ratio_for_each_sequence() -> None:
    logprobs, segment = f64([0.3, 0.0, 0.0, -0.6, 0.3]), torch.tensor([0, 0, 0, 1, 1])
    advantage = f64([1, 1, 1, -1, -1])
    loss = Loss(name="gspo", clip_low=0.2, clip_high=0.28)
    losses, _ = policy_loss(loss, logprobs, torch.zeros_like(logprobs), advantage, segment)
    ratios = f64([0.1, 0.1, 0.1, -0.15, -0.15]).exp()
    close(losses, -advantage * ratios, 1e-12)


def test_the_kl_term_is_added_and_reported_beside_the_policy_loss(frozen: Frozen) -> None:
    at, old, ref = (frozen.given(name)[0] for name in ("new", "old", "ref"))
    given = at, old, frozen.given("advantage")[0], torch.zeros(len(at)).long()
    without, _ = policy_loss(Loss(), *given)
    losses, metrics = policy_loss(Loss(kl_coef=0.3, kl_estimator="k2"), *given, reference_logprobs=ref)
    kl = kl_estimate(at, ref, "k2")
    close(losses, without + 0.3 * kl, 1e-12)
    close(metrics["actor/kl_loss"], kl, 1e-12)
    close(metrics["actor/pg_loss"], without, 0)


@pytest.mark.parametrize(
    ("loss", "advice"),
    [
        (Loss(name="vanilla"), "use ppo"),  # type: ignore[arg-type]
        (Loss(name="geo_mean"), "use gspo"),  # type: ignore[arg-type]
        (Loss(name="pop"), "known: ppo"),  # type: ignore[arg-type]
        (Loss(kl_coef=0.1), "reference"),
    ],
)
def test_a_loss_that_cannot_be_computed_says_why(loss: Loss, advice: str) -> None:
    one = torch.zeros(1)
    with pytest.raises(ValueError, match=advice):
        policy_loss(loss, one, one, one, one.long())
