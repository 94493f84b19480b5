"""KL estimators beside verl's, and beside the true divergence."""

from typing import Any

import pytest
import torch

from tests.trainer_core.algorithm.conftest import Frozen, close
from trainer_core.algorithm.kl import kl_estimate, kl_penalty


def f64(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(
    ("kind", "name"), [("k1", "k1"), ("kl", "k1"), ("abs", "abs"), ("mse", "k2"), ("low_var_kl", "k3")]
)
@pytest.mark.parametrize("suffix", ["", "+"])
def test_values_are_verls(frozen: Frozen, kind: str, name: str, suffix: str) -> None:
    x = f64(frozen.table["kl_x=logp-ref"])
    close(kl_estimate(x, torch.zeros_like(x), kind + suffix), frozen.table[f"kl_{name}"])


@pytest.mark.parametrize("kind", ["k1", "k2", "k3", "k1+", "k3+"])
def test_gradients_are_verls(frozen: Frozen, kind: str) -> None:
    x = f64([-0.5, 0.5]).requires_grad_()
    kl_estimate(x, torch.zeros(2, dtype=torch.float64), kind).sum().backward()
    assert x.grad is not None
    close(x.grad, frozen.table[f"kl_grad_{kind}"])


def test_estimators_agree_with_the_true_divergence_on_average() -> None:
    generator = torch.Generator().manual_seed(0)
    policy, reference = torch.randn(2, 6, generator=generator, dtype=torch.float64) * 0.3
    true = torch.distributions.kl_divergence(
        torch.distributions.Categorical(logits=policy), torch.distributions.Categorical(logits=reference)
    )
    for kind in ("k1", "k3"):
        per_token = kl_estimate(policy.log_softmax(-1), reference.log_softmax(-1), kind)
        torch.testing.assert_close((policy.softmax(-1) * per_token).sum(), true)


def test_a_penalty_costs_nothing_where_nothing_is_trained() -> None:
    trained = torch.tensor([True, False])
    got = kl_penalty(f64([-1.0, torch.nan]), f64([-3.0, 0.0]), trained, coef=0.5)
    assert got.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(("kind", "advice"), [("k9", "known: .*low_var_kl"), ("full", "use low_var_kl")])
def test_another_estimator_is_refused(kind: str, advice: str) -> None:
    with pytest.raises(ValueError, match=advice):
        kl_estimate(torch.zeros(1), torch.zeros(1), kind)
