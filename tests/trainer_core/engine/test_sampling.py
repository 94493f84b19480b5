"""Drawing against exact distributions."""

import pytest
import torch

from trainer_core.engine.sampling import draw, keep_likely, likeliest
from trainer_core.types import Sampling


@pytest.mark.parametrize(
    "sampling",
    [Sampling(), Sampling(temperature=2.0), Sampling(top_k=3), Sampling(temperature=0.5, top_p=0.9)],
)
def test_draws_follow_the_distribution(sampling: Sampling) -> None:
    logits, count = torch.tensor([1.0, 0.0, -1.0, 3.0, -float("inf"), 2.0]), 100_000
    uniform = torch.rand(count, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    drawn, logprobs = draw(logits.expand(count, -1), sampling, uniform)
    scaled = logits / sampling.temperature
    expected = keep_likely(scaled[None], sampling)[0].softmax(-1) * count
    observed = drawn.bincount(minlength=len(logits))
    possible = expected > 0
    assert observed[~possible].sum() == 0
    chi_square = ((observed - expected)[possible] ** 2 / expected[possible]).sum()
    assert chi_square < 20  # 5 degrees of freedom at most: passed by 99.9 % of right samplers
    torch.testing.assert_close(logprobs, scaled.log_softmax(-1)[drawn])


@pytest.mark.parametrize("uniform", [0.0, 0.5, 1.0 - 2.0**-53])
def test_the_ends_of_the_interval_draw_possible_tokens(uniform: float) -> None:
    logits = torch.full((1, 1000), -float("inf"))
    logits[0, 300:600] = torch.randn(300, generator=torch.Generator().manual_seed(0))
    drawn, logprob = draw(logits, Sampling(), torch.tensor([uniform], dtype=torch.float64))
    assert 300 <= drawn.item() < 600 and logprob.isfinite().all()


@pytest.mark.parametrize(
    ("sampling", "kept"),
    [
        (Sampling(top_k=2), [0, 1]),
        (Sampling(top_k=1), [0]),
        (Sampling(top_k=99), [0, 1, 2, 3]),
        (Sampling(top_p=0.5), [0]),
        (Sampling(top_p=0.51), [0, 1]),
        (Sampling(top_p=0.95), [0, 1, 2]),
        (Sampling(top_p=0.01), [0]),
        (Sampling(top_k=3, top_p=0.6), [0, 1]),
    ],
)
def test_top_k_and_top_p(sampling: Sampling, kept: list[int]) -> None:
    """Probabilities 0.5, 0.3, 0.15, 0.05; top-p is taken after top-k and renormalises, as in vLLM."""
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    assert keep_likely(logits, sampling)[0].isfinite().nonzero()[:, 0].tolist() == kept


def test_the_likeliest_are_reported_in_order() -> None:
    logits = torch.tensor([[0.1, 0.6, 0.3]]).log()
    (row,) = likeliest(logits, 1.0, 2)
    assert [number for number, _ in row] == [1, 2]
    assert [logprob for _, logprob in row] == pytest.approx(torch.tensor([0.6, 0.3]).log().tolist())
    assert len(likeliest(logits, 0.0, 9)[0]) == 3
