"""Weights, checkpoints, tokenizers."""

from tests.faults.lab.types import Case

MODELS = (
    Case("weights_cut", "corrupt_weights", "SafetensorError", warm=True, fix="fetch the file again"),
    Case("weights_pointer", "corrupt_weights", "SafetensorError", warm=True, fix="git lfs pull"),
    Case(
        "checkpoint_cut",
        "corrupt_weights",
        "PytorchStreamReader failed",
        arguments=("disk",),
        warm=True,
        fix="an earlier checkpoint",
    ),
    Case(
        "checkpoint_cut_in_memory",
        "corrupt_weights",
        "PytorchStreamReader failed",
        program="checkpoint_cut.py",
        arguments=("memory",),
        warm=True,
        fix="an earlier checkpoint",
    ),
    Case(
        "checkpoint_shape",
        "checkpoint_load",
        "size mismatch for weight",
        warm=True,
        fix="the checkpoint of this model",
    ),
    Case(
        "checkpoint_keys",
        "checkpoint_load",
        "Missing key(s) in state_dict",
        warm=True,
        fix="unwrap the model before it is saved",
    ),
    Case("checkpoint_class", "checkpoint_load", "Weights only load failed", warm=True, fix="allow the class"),
    Case(
        "checkpoint_files",
        "checkpoint_load",
        "no file named",
        warm=True,
        also_right=("path_not_found",),
        fix="a complete checkpoint",
    ),
    Case(
        "model_type",
        "version_skew",
        "does not recognize this architecture",
        warm=True,
        fix="a newer transformers",
    ),
    Case(
        "chat_template",
        "tokenizer_template",
        "chat_template is not set",
        warm=True,
        fix="give a chat template",
    ),
    Case(
        "token_beyond",
        "tokenizer_template",
        "index out of range in self",
        warm=True,
        fix="the tokenizer of this model",
    ),
)
