"""A small transformer and a character tokenizer with a chat template, made from a seed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trainer_core.engine.shape import decoder_shape
from trainer_core.types import TrainingError

PAD, END = "<|pad|>", "<|end|>"
ROLES = ("<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
MAX_PARAMETERS = 1_000_000


@dataclass(frozen=True)
class TinyModel:
    """The recipe of a small causal language model."""

    architecture: str
    """A transformers model type, e.g. `qwen2`."""
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    intermediate_size: int
    max_position_embeddings: int
    """The longest prompt and response together, in tokens."""
    seed: int
    """Of the initial weights."""


def make_tokenizer() -> Any:
    """One token per character (per byte outside ASCII) and per chat role; `<|end|>` ends a turn.

    It is byte-level BPE without merges, the family of tokenizer that transformers loads for qwen2 whatever
    the folder says; any other kind would come back from `AutoTokenizer` as something else.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    byte_tokens = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([PAD, END, *ROLES, *byte_tokens])}
    bytewise = Tokenizer(models.BPE(vocabulary, merges=[]))
    bytewise.normalizer = normalizers.NFC()
    bytewise.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bytewise.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bytewise,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=list(ROLES),
        clean_up_tokenization_spaces=False,
    )
    template = Path(__file__).with_name("tiny_chat_template.jinja")
    tokenizer.chat_template = template.read_text(encoding="utf-8")
    return tokenizer


def make_model(recipe: TinyModel, tokenizer: Any) -> Any:
    """A randomly initialised model; the global random state of torch is left as it was.

    Raises:
        TrainingError: transformers does not know the architecture, refuses the sizes, or the model has over
        a million parameters.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    vocabulary_size = 8 * -(-len(tokenizer) // 8)  # matrix products like multiples of 8
    sizes = asdict(recipe) | {"vocab_size": vocabulary_size}
    architecture, seed = sizes.pop("architecture"), sizes.pop("seed")
    if shape := decoder_shape(sizes):
        check_size(shape.parameters)
    try:
        config = AutoConfig.for_model(
            architecture,
            **sizes,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    except (ValueError, KeyError, TypeError, RuntimeError) as error:
        raise TrainingError(
            f"ajet.model.tiny: transformers cannot make this model: {error}. `architecture` is a "
            "transformers model type such as qwen2, and hidden_size must be a multiple of "
            "2 × num_attention_heads"
        ) from error
    return model


def check_size(parameters: int) -> None:
    """Raises:
    TrainingError: that is more than a tiny model may have.
    """
    if parameters > MAX_PARAMETERS:
        raise TrainingError(
            f"ajet.model.tiny: these sizes give {parameters:,} parameters, more than the "
            f"{MAX_PARAMETERS:,} a tiny model may have; lower hidden_size, intermediate_size or "
            "num_hidden_layers, or point model.path to a model of your own"
        )
