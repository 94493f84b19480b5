"""The sizes of a model, read off its `config.json` and the headers of its weights, without torch."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a decoder."""

    parameters: int
    hidden_size: int
    layers: int
    heads: int
    """Of the queries."""
    key_value_size: int
    """Key/value heads × their width."""
    head_size: int
    intermediate_size: int
    vocabulary: int
    shares_prompts: bool
    """A prompt is computed once for all its answers."""
    ties_embeddings: bool
    """One table for what goes in and what comes out."""
    context: int | None
    """Most positions; None where the config does not say, or stretches them."""

    @property
    def embeddings(self) -> int:
        """Parameters of the table of tokens, or of both."""
        return (1 if self.ties_embeddings else 2) * self.vocabulary * self.hidden_size

    @property
    def key_value_heads(self) -> int:
        """Heads of the keys, and as many of the values."""
        return self.key_value_size // self.head_size


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
    ties = bool(config.get("tie_word_embeddings", True))
    if parameters is None:
        attention = 2 * width * (heads * head + keys) + heads * head + 2 * keys
        tables = 1 if ties else 2
        layer = attention + 3 * width * inner + 2 * width
        parameters = tables * vocabulary * width + layers * layer + width
    kinds = config.get("layer_types") or []
    shares = all(kind in ("full_attention", "sliding_attention") for kind in kinds)
    stretched = config.get("rope_scaling") or config.get("rope_parameters") or {}
    is_plain = isinstance(stretched, dict) and stretched.get("rope_type", "default") == "default"
    context = first("max_position_embeddings", "n_positions") if is_plain else None
    return ModelShape(parameters, width, layers, heads, keys, head, inner, vocabulary, shares, ties, context)


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
        header.pop("__metadata__", None)
        count += sum(math.prod(tensor["shape"]) for tensor in header.values())
    return count or None
