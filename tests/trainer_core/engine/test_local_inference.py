"""The hand-written loop against full forward passes, transformers' own generation, and exact
distributions.
"""

from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from trainer_core.engine.local_inference import LocalInference, draw, keep_likely
from trainer_core.types import Completion, Sampling

PROMPTS = [[4, 20, 21, 22, 1, 5], [4, 30, 1, 5], [4, 25, 26, 27, 28, 29, 1, 5]]


def generate(engine: LocalInference, **changes: Any) -> list[list[Completion]]:
    arguments: dict[str, Any] = {"repeats": 3, "sampling": Sampling(), "max_new_tokens": 12, "seed": 0}
    return engine.generate(PROMPTS, **(arguments | changes))


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_logprobs_are_those_of_a_full_forward_pass(model: Any, tokenizer: Any, temperature: float) -> None:
    """One row at a time and without cache or padding: whatever the loop does wrong shows here."""
    groups = generate(LocalInference(model, tokenizer), sampling=Sampling(temperature))
    for prompt, group in zip(PROMPTS, groups, strict=True):
        for completion in group:
            ids = torch.tensor([prompt + list(completion.token_ids)])
            logprobs = (model(ids).logits[0, len(prompt) - 1 : -1] / temperature).log_softmax(-1)
            expected = logprobs.gather(-1, ids[0, len(prompt) :, None])[:, 0]
            torch.testing.assert_close(torch.tensor(completion.logprobs), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("architecture", ["llama", "qwen3", "gpt2", "gemma3_text", "mistral"])
def test_other_architectures_agree_with_their_own_forward_pass(architecture: str, tokenizer: Any) -> None:
    """Cache, padding and dropping of finished rows, on models with other position codes and windows."""
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}
    window = {"sliding_window": 8} if architecture in ("gemma3_text", "mistral") else {}
    config = AutoConfig.for_model(
        architecture, vocab_size=264, intermediate_size=48, head_dim=16, **small, **window
    )
    torch.manual_seed(0)
    other = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    other.generation_config.eos_token_id = list(range(40, 80))
    for prompt, group in zip(PROMPTS, generate(LocalInference(other, tokenizer)), strict=True):
        for completion in group:
            ids = torch.tensor([prompt + list(completion.token_ids)])
            expected = other(ids).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
            expected = expected.gather(-1, ids[0, len(prompt) :, None])[:, 0]
            torch.testing.assert_close(torch.tensor(completion.logprobs), expected, atol=1e-4, rtol=0)


def test_a_completion_ends_with_its_first_end_token(model: Any, tokenizer: Any) -> None:
    completions = [c for group in generate(LocalInference(model, tokenizer), repeats=40) for c in group]
    assert {completion.finished for completion in completions} == {True, False}
    for completion in completions:
        ends = [token in model.generation_config.eos_token_id for token in completion.token_ids]
        assert ends[-1] == completion.finished and sum(ends) == completion.finished
        assert completion.finished or len(completion.token_ids) == 12
        assert len(completion.logprobs) == len(completion.token_ids)


def test_greedy_is_transformers_greedy(model: Any, tokenizer: Any) -> None:
    groups = generate(LocalInference(model, tokenizer), repeats=1, sampling=Sampling(temperature=0.0))
    for prompt, (completion,) in zip(PROMPTS, groups, strict=True):
        ids = model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=12)
        assert list(completion.token_ids) == ids[0, len(prompt) :].tolist()


def test_the_seed_decides(model: Any, tokenizer: Any) -> None:
    engine = LocalInference(model, tokenizer)
    assert generate(engine) == generate(engine)
    assert generate(engine) != generate(engine, seed=1)


def test_chunks_give_every_prompt_its_repeats(
    model: Any, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainer_core.engine.local_inference._ROWS_AT_ONCE", 4)
    groups = generate(LocalInference(model, tokenizer), sampling=Sampling(temperature=0.0))
    monkeypatch.undo()
    whole = generate(LocalInference(model, tokenizer), sampling=Sampling(temperature=0.0))
    assert [[c.token_ids for c in group] for group in groups] == [
        [c.token_ids for c in group] for group in whole
    ]


def test_draws_follow_the_distribution() -> None:
    logits = torch.tensor([1.0, 0.0, -1.0, 3.0])
    drawn, logprobs = draw(
        logits.expand(40_000, 4), Sampling(temperature=2.0), torch.Generator().manual_seed(0)
    )
    expected = (logits / 2.0).softmax(-1)
    torch.testing.assert_close(drawn.bincount(minlength=4) / 40_000, expected, atol=0.01, rtol=0)
    torch.testing.assert_close(logprobs, expected.log()[drawn])


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
