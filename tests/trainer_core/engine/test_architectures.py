"""Flat batches against each sequence alone, on models of many architectures made from their configs."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from tests.trainer_core.engine.flat import alone, flat_batch, random_sequences
from trainer_core.engine.hidden_states import can_share_prompts
from trainer_core.engine.local_training import LocalTraining
from trainer_core.types import Loss

SMALL: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
WINDOW = {"sliding_window": 6}
MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
LINEAR = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "layer_types": ["linear_attention", "full_attention"],
}
MAMBA = {
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_d_state": 8,
    "mamba_n_groups": 1,
    "mamba_chunk_size": 8,
}
SHARING: dict[str, dict[str, Any]] = {
    "qwen2": {},
    "qwen3": {},
    "qwen3_moe": MOE,
    "llama": {},
    "mistral": WINDOW,
    "gemma2": {**WINDOW, "layer_types": ["sliding_attention", "full_attention"], "query_pre_attn_scalar": 8},
    "gemma3_text": {**WINDOW, "layer_types": ["sliding_attention", "full_attention"]},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
    "gpt_neox": {},
    "phi3": {},
    "smollm3": {"no_rope_layers": [1, 0]},
    "olmo2": {},
    "bloom": {"n_layer": 2, "n_head": 4},
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32},
    "gpt_oss": {**WINDOW, "num_local_experts": 4, "layer_types": ["sliding_attention", "full_attention"]},
    "granite": {"logits_scaling": 4.0},
    "cohere": {"logit_scale": 0.25},
}
REPEATING: dict[str, dict[str, Any]] = {
    "lfm2": {"layer_types": ["conv", "full_attention"]},
    "qwen3_5_text": LINEAR,
    "qwen3_next": {**LINEAR, **MOE, "shared_expert_intermediate_size": 24},
    "mamba2": {"num_heads": 8, "head_dim": 8, "state_size": 8, "n_groups": 1, "chunk_size": 8, "expand": 2},
    "granitemoehybrid": {
        **MAMBA,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "shared_intermediate_size": 24,
        "layer_types": ["mamba", "attention"],
        "logits_scaling": 4.0,
    },
}
FAST = ("qwen2", "gemma2", "gpt2", "qwen3_5_text")


def cases() -> list[Any]:
    names = [*SHARING, *REPEATING]
    return [name if name in FAST else pytest.param(name, marks=pytest.mark.soak) for name in names]


def make(name: str) -> Any:
    torch.set_num_threads(1)
    config = AutoConfig.for_model(name, **SMALL | (SHARING | REPEATING)[name])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
        with torch.no_grad():
            for parameter in model.parameters():  # random weights of 0.02 give a flat distribution
                if parameter.dim() > 1:
                    parameter.mul_(4.0)
    return model


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("name", cases())
def test_a_flat_batch_is_each_sequence_alone(name: str, share: bool) -> None:
    model = make(name)
    assert can_share_prompts(model) == (name in SHARING)
    batch = flat_batch(random_sequences(seed=1))
    engine = LocalTraining(model, None, temperature=0.8, share_prompts=share)
    expected = alone(model, batch, 0.8)
    torch.testing.assert_close(engine.forward(batch), expected.detach(), atol=2e-6, rtol=1e-6)

    (-batch.weight * batch.advantage * expected).sum().backward()
    gradients = {key: value.grad for key, value in model.named_parameters() if value.grad is not None}
    model.zero_grad(set_to_none=True)
    engine.forward_backward(replace(batch, old_logprobs=expected.detach()), Loss())
    whole = torch.cat([each.flatten() for each in gradients.values()]).norm()
    for key, value in model.named_parameters():
        if key in gradients:
            assert (value.grad - gradients[key]).norm() <= 2e-6 * whole, key
