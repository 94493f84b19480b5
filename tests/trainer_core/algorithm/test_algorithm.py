"""The formulas against tables computed with verl, finite differences, and torch's own distributions."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer_core.algorithm.advantages import grpo_advantages
from trainer_core.algorithm.kl import kl_estimate
from trainer_core.algorithm.logits import entropy, token_logprobs
from trainer_core.algorithm.losses import aggregate, clipped_policy_loss

ORACLE: dict[str, Any] = json.loads(Path(__file__).with_name("oracle.json").read_text())


def f64(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def close(got: torch.Tensor, expected: Any) -> None:
    torch.testing.assert_close(got, f64(expected), atol=1e-5, rtol=0)


@pytest.mark.parametrize(("by_std", "name"), [(True, "grpo_std"), (False, "grpo_nostd(dr)")])
def test_grpo_advantages_are_verls(by_std: bool, name: str) -> None:
    names = sorted(set(ORACLE["group"]))
    groups = torch.tensor([names.index(group) for group in ORACLE["group"]])
    close(grpo_advantages(f64(ORACLE["rewards"]), groups, norm_by_std=by_std), ORACLE[name])


@settings(max_examples=50)
@given(st.lists(st.tuples(st.floats(-5, 5), st.integers(0, 3)), min_size=1, max_size=24))
def test_grpo_advantages_equal_the_loop_over_groups(pairs: list[tuple[float, int]]) -> None:
    rewards, groups = f64([reward for reward, _ in pairs]), torch.tensor([group for _, group in pairs])
    expected = torch.empty_like(rewards)
    for group in groups.unique():
        of_group = rewards[groups == group]
        mean, std = (of_group.mean(), of_group.std()) if len(of_group) > 1 else (f64(0.0), f64(1.0))
        expected[groups == group] = (of_group - mean) / (std + 1e-6)
    torch.testing.assert_close(grpo_advantages(rewards, groups), expected, atol=1e-6, rtol=1e-6)


def test_grpo_advantages_refuse_shapes_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match=r"\[B\]"):
        grpo_advantages(torch.zeros(2, 2), torch.zeros(2, 2))


@pytest.mark.parametrize(
    ("kind", "name"), [("k1", "k1"), ("kl", "k1"), ("abs", "abs"), ("mse", "k2"), ("low_var_kl", "k3")]
)
def test_kl_values_are_verls(kind: str, name: str) -> None:
    x = f64(ORACLE["kl_x=logp-ref"])
    close(kl_estimate(x, torch.zeros_like(x), kind), ORACLE[f"kl_{name}"])


@pytest.mark.parametrize("kind", ["k1", "k2", "k3", "k1+", "k3+"])
def test_kl_gradients_are_verls(kind: str) -> None:
    x = f64([-0.5, 0.5]).requires_grad_()
    kl_estimate(x, torch.zeros(2, dtype=torch.float64), kind).sum().backward()
    close(x.grad, ORACLE[f"kl_grad_{kind}"])


def test_kl_estimators_agree_with_the_true_divergence_on_average() -> None:
    generator = torch.Generator().manual_seed(0)
    policy, reference = torch.randn(2, 6, generator=generator, dtype=torch.float64) * 0.3
    true = torch.distributions.kl_divergence(
        torch.distributions.Categorical(logits=policy), torch.distributions.Categorical(logits=reference)
    )
    probabilities = policy.softmax(-1)
    for kind in ("k1", "k3"):
        per_token = kl_estimate(policy.log_softmax(-1), reference.log_softmax(-1), kind)
        torch.testing.assert_close((probabilities * per_token).sum(), true)


def test_unknown_kl_estimator_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="low_var_kl"):
        kl_estimate(torch.zeros(1), torch.zeros(1), "k9")


@pytest.mark.parametrize("sign", ["+1", "-1"])
def test_clipped_loss_and_its_gradient_are_verls(sign: str) -> None:
    logprobs = f64([ORACLE["ratios"]]).log().requires_grad_()
    advantages = torch.full_like(logprobs, float(sign))
    policy = clipped_policy_loss(
        logprobs, torch.zeros_like(logprobs), advantages, clip_low=0.2, clip_high=0.28, dual_clip=3.0
    )
    policy.losses.sum().backward()
    close(policy.losses[0].detach(), ORACLE[f"ppo_A={sign}"])
    close(logprobs.grad[0], ORACLE[f"ppo_grad_A={sign}"])


def test_clipped_loss_survives_any_log_ratio() -> None:
    logprobs = f64([[1e4, -1e4, 0.0]]).requires_grad_()
    policy = clipped_policy_loss(logprobs, torch.zeros_like(logprobs), -torch.ones_like(logprobs))
    policy.losses.sum().backward()
    assert torch.isfinite(policy.losses).all()
    assert torch.isfinite(logprobs.grad).all()
    assert policy.losses[0, 0] == 3.0


def test_gradient_on_policy_is_the_policy_gradient() -> None:
    """At ratio 1 the gradient with respect to the log-probability is -A, checked by finite differences
    too.
    """
    advantages = f64([[0.7, -1.3]])
    at = f64([[-0.4, -0.9]]).requires_grad_()
    old = at.detach().clone()
    clipped_policy_loss(at, old, advantages).losses.sum().backward()
    torch.testing.assert_close(at.grad, -advantages)
    assert torch.autograd.gradcheck(lambda x: clipped_policy_loss(x, old, advantages).losses, (at,))


@pytest.mark.parametrize(
    "mode",
    ["token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"],
)
def test_aggregation_is_verls_and_ignores_masked_sequences(mode: Any) -> None:
    losses = f64([[1, 2, 3, 4], [10, 99, 99, 99], [99, 99, 99, 99]])
    mask = f64([[1, 1, 1, 1], [1, 0, 0, 0], [0, 0, 0, 0]])
    close(aggregate(losses, mask, mode), ORACLE[f"agg_{mode}"])


def test_aggregation_refuses_an_unknown_mode() -> None:
    with pytest.raises(ValueError, match="batch-max"):
        aggregate(torch.zeros(1, 1), torch.ones(1, 1), "batch-max")  # type: ignore[arg-type]


def test_logprobs_and_entropy_are_torchs() -> None:
    logits = torch.randn(3, 4, 11, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 5
    chosen = torch.randint(0, 11, (3, 4), generator=torch.Generator().manual_seed(2))
    distribution = torch.distributions.Categorical(logits=logits)
    torch.testing.assert_close(token_logprobs(logits, chosen), distribution.log_prob(chosen))
    torch.testing.assert_close(entropy(logits), distribution.entropy())
