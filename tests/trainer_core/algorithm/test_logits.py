"""Log-probabilities and entropy beside torch's distributions; chunks beside the whole."""

import pytest
import torch

from trainer_core.algorithm.logits import head_logprobs, logprobs_and_entropy, token_logprobs


def logits_and_ids() -> tuple[torch.Tensor, torch.Tensor]:
    logits = torch.randn(12, 11, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 5
    return logits, torch.randint(0, 11, (12,), generator=torch.Generator().manual_seed(2))


def test_logprobs_and_entropy_are_torchs() -> None:
    logits, chosen = logits_and_ids()
    distribution = torch.distributions.Categorical(logits=logits)
    logprobs, entropy = logprobs_and_entropy(logits, chosen)
    torch.testing.assert_close(logprobs, distribution.log_prob(chosen))
    torch.testing.assert_close(entropy, distribution.entropy())
    torch.testing.assert_close(token_logprobs(logits, chosen), logprobs)


def test_the_gradient_is_right_and_entropy_has_none() -> None:
    logits, chosen = logits_and_ids()
    logits.requires_grad_()
    assert torch.autograd.gradcheck(lambda z: logprobs_and_entropy(z, chosen)[0], (logits,))
    assert not logprobs_and_entropy(logits, chosen)[1].requires_grad


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("at_once", [1, 11 * 5, 11 * 12])
def test_chunks_are_the_whole_with_its_gradients(temperature: float, at_once: int) -> None:
    generator = torch.Generator().manual_seed(3)
    states = torch.randn(12, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(11, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    _, chosen = logits_and_ids()
    upstream = torch.randn(12, generator=generator, dtype=torch.float64)

    whole = (states @ weight.T / temperature).log_softmax(-1)
    expected = whole.gather(-1, chosen[:, None]).squeeze(-1)
    logprobs, entropy = head_logprobs(
        states, chosen, lambda h: h @ weight.T, temperature=temperature, logits_at_once=at_once
    )
    torch.testing.assert_close(logprobs, expected)
    torch.testing.assert_close(entropy, -(whole.exp() * whole).sum(-1).detach())
    same, none = head_logprobs(
        states, chosen, lambda h: h @ weight.T, temperature=temperature, with_entropy=False
    )
    torch.testing.assert_close(same, expected)
    assert none.shape == entropy.shape and not none.any()
    grads = torch.autograd.grad((logprobs * upstream).sum(), (states, weight))
    torch.testing.assert_close(grads, torch.autograd.grad((expected * upstream).sum(), (states, weight)))


def test_no_chunk_is_larger_than_allowed_forward_and_backward() -> None:
    states, rows = torch.randn(100, 4, requires_grad=True), []
    head = torch.nn.Linear(4, 50)

    def counting(hidden: torch.Tensor) -> torch.Tensor:
        rows.append(len(hidden))
        return head(hidden)

    logprobs, _ = head_logprobs(states, torch.zeros(100, dtype=torch.int64), counting, logits_at_once=50 * 16)
    logprobs.sum().backward()
    assert max(rows) == 16


def test_half_precision_logits_are_computed_on_in_float32() -> None:
    states, ids = torch.randn(6, 4), torch.arange(6)
    weight = torch.randn(9, 4).bfloat16()
    logprobs, entropy = head_logprobs(states.bfloat16(), ids, lambda h: h @ weight.T)
    expected = (states.bfloat16() @ weight.T).float().log_softmax(-1).gather(-1, ids[:, None]).squeeze(-1)
    assert logprobs.dtype == entropy.dtype == torch.float32
    torch.testing.assert_close(logprobs, expected)


def test_no_positions_are_no_error() -> None:
    states = torch.zeros(0, 4, requires_grad=True)
    logprobs, entropy = head_logprobs(states, torch.zeros(0, dtype=torch.int64), torch.nn.Linear(4, 5))
    assert logprobs.shape == entropy.shape == (0,)
    logprobs.sum().backward()
