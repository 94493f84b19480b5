"""How much memory a local training will take at most: from the shape of its model, without torch.

What is computed on at once is taken at its bounds (`trainer_core.bounds`), with prompts and answers as long
as the config allows, so a run whose texts are shorter takes less. Logits are float32.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer_core.bounds import COPIED_TOKEN, LOGITS_AT_ONCE, SAMPLED_LOGITS

_FLOAT = 4
_LIBRARIES = 450 * 2**20
"""Python with torch and transformers loaded, and what the allocator keeps (measured on Linux)."""


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a decoder."""

    parameters: int
    hidden_size: int
    layers: int
    key_value_size: int
    """Key/value heads × their width."""
    intermediate_size: int
    vocabulary: int
    shares_prompts: bool
    """A prompt is computed once for all its answers."""


@dataclass(frozen=True)
class Work:
    """What is computed at once."""

    prompt: int
    """Tokens, at most; so is `answer`."""
    answer: int
    samples: int
    """Of a step or of a validation, whichever has more."""
    mini_batch: int
    """Samples, with `mini_batch_prompts` different prompts."""
    mini_batch_prompts: int
    micro_batch_tokens: int
    has_reference: bool
    samples_apart: bool
    """Sampling has weights of its own."""
    is_tempered: bool
    """Logits are divided by a temperature other than 1."""
    trains: bool
    number_bytes: int
    """Of a weight, and of what is computed in its type."""
    cache_bytes: int
    """Bound on the keys and values."""
    lora_rank: int
    """0: all weights are trained."""
    recomputes: bool
    """Only the input of each layer is kept for the gradient."""


def decoder_shape(config: Mapping[str, Any], parameters: int | None = None) -> ModelShape | None:
    """The shape that a transformers `config.json` declares; None where it is no decoder of the usual make.

    Without `parameters` they are counted as those of a decoder with gated feed-forward layers, as Llama's,
    and biases on queries, keys and values, as Qwen2's.
    """
    config = {**config, **config["text_config"]} if isinstance(config.get("text_config"), dict) else config

    def first(*names: str, otherwise: int | None = None) -> int | None:
        found = (config.get(name) for name in names)
        return next((value for value in found if type(value) is int and value > 0), otherwise)

    width, layers = (
        first("hidden_size", "n_embd", "d_model"),
        first("num_hidden_layers", "n_layer", "num_layers"),
    )
    heads, vocabulary = first("num_attention_heads", "n_head", "num_heads"), first("vocab_size")
    if not (width and layers and heads and vocabulary):
        return None
    inner = first("intermediate_size", "n_inner", "ffn_dim") or 4 * width
    head = first("head_dim") or width // heads
    keys = (first("num_key_value_heads") or heads) * head
    if parameters is None:
        attention = 2 * width * (heads * head + keys) + heads * head + 2 * keys
        tables = 1 if config.get("tie_word_embeddings", True) else 2
        layer = attention + 3 * width * inner + 2 * width
        parameters = tables * vocabulary * width + layers * layer + width
    kinds = config.get("layer_types") or []
    shares = all(kind in ("full_attention", "sliding_attention") for kind in kinds)
    return ModelShape(parameters, width, layers, keys, inner, vocabulary, shares)


def shape_of_folder(folder: Path) -> ModelShape | None:
    """The shape of a model folder, its parameters counted in the headers of its safetensors files where it
    has such; None where there is no `config.json` of a decoder."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        return decoder_shape(config, _stored_parameters(folder)) if isinstance(config, dict) else None
    except (OSError, ValueError, RecursionError):
        return None


def _stored_parameters(folder: Path) -> int | None:
    count = 0
    for file in sorted(folder.glob("*.safetensors")):
        with file.open("rb") as opened:
            (length,) = struct.unpack("<Q", opened.read(8).ljust(8, b"\0"))
            header = json.loads(opened.read(min(length, 2**26)))
        for name, tensor in header.items():
            if name != "__metadata__":
                size = 1
                for dimension in tensor["shape"]:
                    size *= dimension
                count += size
    return count or None


def estimate(shape: ModelShape, work: Work) -> dict[str, int]:
    """Bytes at the peak, by what takes them, the largest first.

    Sampling and the update take turns, but the allocator keeps most of what the other has used.
    """
    weights = shape.parameters * work.number_bytes
    trained = _trained(shape, work) * work.number_bytes
    lasting = {"libraries": _LIBRARIES, "weights": weights}
    if work.trains:
        lasting |= {"optimizer": 2 * trained, "gradients": trained}
    if work.trains and work.has_reference and not work.lora_rank:
        lasting["reference copy"] = weights
    if work.trains and work.samples_apart:
        lasting["sampling copy"] = weights
    parts = lasting | _sampling(shape, work) | (_update(shape, work) if work.trains else {})
    return dict(sorted(parts.items(), key=lambda part: -part[1]))


def _trained(shape: ModelShape, work: Work) -> int:
    """Parameters that are trained; those of LoRA on every linear layer."""
    width, keys = shape.hidden_size, shape.key_value_size
    inputs_and_outputs = 4 * width + 2 * (width + keys) + 3 * (width + shape.intermediate_size)
    return work.lora_rank * shape.layers * inputs_and_outputs if work.lora_rank else shape.parameters


def _sampling(shape: ModelShape, work: Work) -> dict[str, int]:
    columns = work.prompt + work.answer
    row = columns * shape.layers * 2 * shape.key_value_size * work.number_bytes
    rows = max(1, min(work.samples, work.cache_bytes // row, SAMPLED_LOGITS // shape.vocabulary))
    return {"KV cache": rows * row, "sampled logits": 2 * rows * shape.vocabulary * _FLOAT}


def _update(shape: ModelShape, work: Work) -> dict[str, int]:
    longest = work.prompt + work.answer
    shares = shape.shares_prompts and not work.recomputes
    prompts = work.mini_batch_prompts if shares else work.mini_batch
    all_tokens = prompts * work.prompt + work.mini_batch * work.answer
    if shares:
        all_tokens += int(work.mini_batch * work.prompt * COPIED_TOKEN)
    tokens = min(max(work.micro_batch_tokens, longest), all_tokens)
    # saved for the backward pass by a gated decoder layer, measured per token on qwen2, qwen3 and llama
    layer = 9 * shape.hidden_size + 2 * shape.key_value_size + 4 * shape.intermediate_size
    kept = layer + shape.layers * shape.hidden_size if work.recomputes else shape.layers * layer
    answers = min(tokens, work.mini_batch * work.answer)
    logits = min(answers * shape.vocabulary, max(LOGITS_AT_ONCE, shape.vocabulary))
    return {
        "activations": tokens * (kept + 2 * shape.hidden_size) * work.number_bytes,
        "logits chunk": (4 + work.is_tempered) * logits * _FLOAT,
    }
