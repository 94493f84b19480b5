"""How much memory a run will take at most: from its config and the shape of its model, without torch.

What is computed on at once is taken at its bounds (`trainer_core.bounds`), with prompts and answers as long
as the config allows, so a run whose texts are shorter takes less. The rules of sharded training are those of
FSDP2 (each rank keeps 1/ranks of weights, gradients and AdamW's two states in float32) as verl 0.9.1 uses it.
Backbone local keeps the same in float32, and beside it the bfloat16 model where it computes in that.
Constants without a source were measured, as docs/verl.md says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from trainer_core.backbone.schedule import Schedule, longest_response
from trainer_core.bounds import COPIED_TOKEN, LOGITS_AT_ONCE, SAMPLED_LOGITS
from trainer_core.config.schema import Ajet
from trainer_core.engine.shape import ModelShape

_FLOAT = 4
_GIGABYTE = 2**30
_LIBRARIES = 450 * 2**20
"""Python with torch and transformers loaded, and what the allocator keeps (measured on Linux)."""
_VERL_LIBRARIES = 600 * 2**20
"""The same with verl and Ray."""
_EAGER_LOGITS = 3
"""Tensors of tokens × vocabulary that verl holds on a CPU: logits, softmax and one more."""
_COMPILED_LOGITS = 2
"""The same on a GPU, where the entropy is compiled: logits and their gradient."""
_MASK = 3
"""Bytes of a pair of tokens in the mask that keeps packed sequences apart, as it is made."""


class Memory(NamedTuple):
    """Bytes at the peak by what takes them, the largest first."""

    device: dict[str, int]
    """Where the training computes: on each GPU; on a CPU, in the main memory of each machine."""
    host: dict[str, int]
    """In the main memory of each machine beside its GPUs; empty on a CPU."""


def estimate(
    shape: ModelShape, ajet: Ajet, planned: Schedule, validated: int, *, offloads: bool = False
) -> Memory:
    """What takes memory. `validated`: samples of a validation; `offloads`: verl's `offload_policy`, which
    keeps sharded state in main memory while it trains.

    Sampling and the update take turns, but the allocator keeps most of what the other has used.
    """
    common, is_verl = ajet.trainer_common, ajet.backbone == "verl"
    ranks_here = common.n_gpus_per_node if is_verl else 1
    ranks, number = ranks_here * (common.nnodes if is_verl else 1), _number_bytes(ajet)
    weights = shape.parameters * (_FLOAT if is_verl else number) // ranks
    trained = (_adapters(shape, ajet.lora.lora_rank) or shape.parameters) * _FLOAT // ranks
    sharded, host = {"weights": weights}, _host(shape, ajet, ranks_here)
    rank: dict[str, int] = {}
    if not common.val_only:
        sharded |= {"optimizer": 2 * trained, "gradients": trained}
        rank |= _sharded_update(shape, ajet, planned, ranks) if is_verl else _update(shape, ajet, planned)
        if number < _FLOAT and not is_verl and not ajet.lora.lora_rank:
            sharded["float32 weights"] = trained
        if common.device == "cuda" and is_verl and not offloads:
            host["offloaded between updates"] = ranks_here * (
                weights * common.fsdp_config.param_offload
                + 2 * trained * common.fsdp_config.optimizer_offload
            )
        if _keeps_reference(ajet):
            away = common.device == "cuda" and common.ref_param_offload
            (host if away else rank)["reference copy"] = weights * (ranks_here if away else 1)
    if ajet.rollout.inference == "transformers":
        samples = validated if common.val_only else max(planned.samples_per_step, validated)
        where = host if is_verl and common.device == "cpu" else rank  # once, beside the first rank
        where |= _sampling(shape, ajet, samples)
        if is_verl or (common.one_step_off_policy and not common.val_only):
            where["sampling copy"] = shape.parameters * number
    if offloads:
        host |= {name: size * ranks_here for name, size in sharded.items()}
    else:
        rank |= sharded
    if common.device == "cuda":
        return Memory(_sorted(rank), _sorted(host))
    on_machine = {name: size * ranks_here for name, size in rank.items()}
    return Memory(_sorted({**host, **on_machine}), {})


def kept(memory: Memory, ajet: Ajet) -> int:
    """Bytes of each GPU that the training keeps while vLLM samples, from an estimate of its peak."""
    is_verl, offload = ajet.backbone == "verl", ajet.trainer_common.fsdp_config
    stays = {
        "weights": not (is_verl and offload.param_offload),
        "optimizer": not (is_verl and offload.optimizer_offload),
        **dict.fromkeys(("float32 weights", "reference copy"), True),
    }
    return sum(size for part, size in memory.device.items() if stays.get(part))


def _sorted(parts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(((name, size) for name, size in parts.items() if size), key=lambda part: -part[1]))


def _number_bytes(ajet: Ajet) -> int:
    """Of a number that is computed with; of a weight on backbone local, too."""
    return 4 if ajet.trainer_common.model_dtype == "fp32" else 2


def _keeps_reference(ajet: Ajet) -> bool:
    """With LoRA the reference is the model without its adapter."""
    return ajet.trainer_common.uses_reference and not ajet.lora.lora_rank


def _adapters(shape: ModelShape, rank: int) -> int:
    """Parameters of adapters on every linear layer."""
    width, keys = shape.hidden_size, shape.key_value_size
    inputs_and_outputs = 4 * width + 2 * (width + keys) + 3 * (width + shape.intermediate_size)
    return rank * shape.layers * inputs_and_outputs


def _host(shape: ModelShape, ajet: Ajet, ranks_here: int) -> dict[str, int]:
    """In main memory wherever the training computes: programs, and what brings weights to the sampler."""
    common, rollout = ajet.trainer_common, ajet.rollout
    exact, parts = shape.parameters * _FLOAT, {"libraries": _LIBRARIES}
    if ajet.backbone == "verl":
        is_one = ranks_here * common.nnodes == 1 and common.ray == "auto" and rollout.inference != "verl"
        processes = 1 if is_one else 2 + ranks_here * (1 + _keeps_reference(ajet))  # the trainer's, and Ray's
        parts = {"libraries": processes * _VERL_LIBRARIES}
    if rollout.asks_vllm:
        servers = 1
        if rollout.inference == "verl":  # which sends weights from GPU to GPU
            servers = -(-ranks_here // rollout.tensor_model_parallel_size)
        else:
            parts["weights on their way to vLLM"] = exact
        parts["libraries"] += 2 * servers * _VERL_LIBRARIES  # each with its engine
        if common.device == "cpu":
            cache = _GIGABYTE * max(1, math.ceil(ajet.rollout.kv_cache_memory_bytes / _GIGABYTE))
            parts |= {"vLLM's weights": shape.parameters * _number_bytes(ajet), "vLLM's KV cache": cache}
    if ajet.backbone == "verl" and common.device == "cuda":  # tied tables are loaded whole, by every rank
        parts["weights while they are loaded"] = exact * (ranks_here if shape.ties_embeddings else 1)
    return parts


def _sampling(shape: ModelShape, ajet: Ajet, samples: int) -> dict[str, int]:
    columns = ajet.data.max_prompt_length + longest_response(ajet)
    row = columns * shape.layers * 2 * shape.key_value_size * _number_bytes(ajet)
    cached = ajet.rollout.kv_cache_memory_bytes // row
    rows = max(1, min(samples, cached, SAMPLED_LOGITS // shape.vocabulary))
    return {"KV cache": rows * row, "sampled logits": 2 * rows * shape.vocabulary * _FLOAT}


def _update(shape: ModelShape, ajet: Ajet, planned: Schedule) -> dict[str, int]:
    """Of backbone local, which shares prompts and computes logits in chunks."""
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
    logits = min(min(tokens, samples * answer) * shape.vocabulary, max(LOGITS_AT_ONCE, shape.vocabulary))
    is_tempered = ajet.rollout.temperature != 1.0  # divided into a copy
    return {
        "activations": _activations(shape, ajet, tokens),
        "logits": (4 + is_tempered) * logits * _FLOAT,
    }


def _sharded_update(shape: ModelShape, ajet: Ajet, planned: Schedule, ranks: int) -> dict[str, int]:
    """Of a rank of verl: its micro-batch, and what FSDP2 has gathered at the same time: two layers and a
    table of tokens, whose gradients are float32 until they are sharded."""
    common, number = ajet.trainer_common, _number_bytes(ajet)
    longest, shared = (
        ajet.data.max_prompt_length + longest_response(ajet),
        common.ulysses_sequence_parallel_size,
    )
    most = -(-planned.samples_per_mini_batch * longest // ranks)
    tokens = min(max(planned.micro_batch_tokens, -(-longest // shared)), max(most, -(-longest // shared)))
    is_tempered = ajet.rollout.temperature != 1.0
    copies = (_EAGER_LOGITS if common.device == "cpu" else _COMPILED_LOGITS) + is_tempered
    layer = (shape.parameters - shape.embeddings) // shape.layers
    table = shape.vocabulary * shape.hidden_size
    gathered = (table + 2 * layer) * number
    if not ajet.lora.lora_rank:
        gathered += max(layer, table) * _FLOAT
    parts = {
        "activations": _activations(shape, ajet, tokens),
        "logits": copies * tokens * shape.vocabulary * number,
        "gathered layers": gathered,
    }
    if common.device == "cpu" or common.model_dtype == "fp32":  # without flash attention
        parts["attention mask"] = tokens**2 * _MASK
    return parts


def _activations(shape: ModelShape, ajet: Ajet, tokens: int) -> int:
    """What gated decoder layers save for the backward pass, measured per token on qwen2, qwen3 and llama."""
    layer = 9 * shape.hidden_size + 2 * shape.key_value_size + 4 * shape.intermediate_size
    recomputes = ajet.trainer_common.enable_gradient_checkpointing
    kept = layer + shape.layers * shape.hidden_size if recomputes else shape.layers * layer
    return tokens * (kept + 2 * shape.hidden_size) * _number_bytes(ajet)
