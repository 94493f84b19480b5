"""How much memory a local training will take at most: from its config and the shape of its model, without
torch.

What is computed on at once is taken at its bounds (`trainer_core.bounds`), with prompts and answers as long
as the config allows, so a run whose texts are shorter takes less. Logits are float32.
"""

from __future__ import annotations

from trainer_core.backbone.schedule import Schedule, longest_response
from trainer_core.bounds import COPIED_TOKEN, LOGITS_AT_ONCE, SAMPLED_LOGITS
from trainer_core.config.schema import Ajet
from trainer_core.engine.shape import ModelShape

_FLOAT = 4
_LIBRARIES = 450 * 2**20
"""Python with torch and transformers loaded, and what the allocator keeps (measured on Linux)."""


def estimate(shape: ModelShape, ajet: Ajet, planned: Schedule, validated: int) -> dict[str, int]:
    """Bytes at the peak, by what takes them, the largest first. `validated`: samples of a validation.

    Sampling and the update take turns, but the allocator keeps most of what the other has used.
    """
    common, rank, number = ajet.trainer_common, ajet.lora.lora_rank, _number_bytes(ajet)
    weights = trained = shape.parameters * number
    if rank:
        width, keys = shape.hidden_size, shape.key_value_size
        inputs_and_outputs = 4 * width + 2 * (width + keys) + 3 * (width + shape.intermediate_size)
        trained = rank * shape.layers * inputs_and_outputs * number  # of every linear layer
    samples = validated if common.val_only else max(planned.samples_per_step, validated)
    parts = {"libraries": _LIBRARIES, "weights": weights} | _sampling(shape, ajet, samples)
    if not common.val_only:
        parts |= {"optimizer": 2 * trained, "gradients": trained} | _update(shape, ajet, planned)
        if common.uses_reference and not rank:
            parts["reference copy"] = weights
        if common.one_step_off_policy:
            parts["sampling copy"] = weights
    return dict(sorted(parts.items(), key=lambda part: -part[1]))


def _number_bytes(ajet: Ajet) -> int:
    """Of a weight, and of what is computed in its type."""
    return 4 if ajet.trainer_common.model_dtype == "fp32" else 2


def _sampling(shape: ModelShape, ajet: Ajet, samples: int) -> dict[str, int]:
    columns = ajet.data.max_prompt_length + longest_response(ajet)
    row = columns * shape.layers * 2 * shape.key_value_size * _number_bytes(ajet)
    cached = ajet.rollout.kv_cache_memory_bytes // row
    rows = max(1, min(samples, cached, SAMPLED_LOGITS // shape.vocabulary))
    return {"KV cache": rows * row, "sampled logits": 2 * rows * shape.vocabulary * _FLOAT}


def _update(shape: ModelShape, ajet: Ajet, planned: Schedule) -> dict[str, int]:
    recomputes = ajet.trainer_common.enable_gradient_checkpointing
    prompt, answer = ajet.data.max_prompt_length, longest_response(ajet)
    samples = prompts = planned.samples_per_mini_batch
    all_tokens = samples * answer
    if shape.shares_prompts and not recomputes:
        prompts = min(planned.tasks_per_step, samples)
        if ajet.trainer_common.mini_batch_of == "group":
            prompts = -(-samples // ajet.rollout.num_repeat)
        all_tokens += int(samples * prompt * COPIED_TOKEN)
    all_tokens += prompts * prompt
    tokens = min(max(planned.micro_batch_tokens, prompt + answer), all_tokens)
    # saved for the backward pass by a gated decoder layer, measured per token on qwen2, qwen3 and llama
    layer = 9 * shape.hidden_size + 2 * shape.key_value_size + 4 * shape.intermediate_size
    kept = layer + shape.layers * shape.hidden_size if recomputes else shape.layers * layer
    logits = min(min(tokens, samples * answer) * shape.vocabulary, max(LOGITS_AT_ONCE, shape.vocabulary))
    is_tempered = ajet.rollout.temperature != 1.0  # divided into a copy
    return {
        "activations": tokens * (kept + 2 * shape.hidden_size) * _number_bytes(ajet),
        "logits chunk": (4 + is_tempered) * logits * _FLOAT,
    }
