"""`ajet.model`: which language model is trained, and how a small one is made from nothing."""

from typing import Literal

from trainer_core.config.section import Fraction, NotNegative, Positive, Rate, Section, key, section


class TinyModel(Section, concerns="model"):
    """A transformer small enough for a CPU, created from a seed; nothing is downloaded."""

    architecture: Literal["qwen2"] = key("qwen2", "Transformer family of the created model.")
    hidden_size: Positive = key(64, "Width of the residual stream.")
    num_hidden_layers: Positive = key(2, "Number of transformer blocks.")
    num_attention_heads: Positive = key(4, "Attention heads; must divide `hidden_size`.")
    num_key_value_heads: Positive | None = key(
        None, "Key/value heads; must divide `num_attention_heads`. null: as many as those."
    )
    intermediate_size: Positive = key(192, "Width of the feed-forward layer.")
    seed: NotNegative | None = key(None, "Seed of the first weights. null: `ajet.trainer_common.seed`.")


class Warmup(Section, concerns="model"):
    """Supervised training of the tiny model before reinforcement learning, so that it is right sometimes."""

    enabled: bool = key(True, "Warm the tiny model up; the result is cached for later runs.")
    until_pass_rate: Fraction = key(
        0.2, "Stop as soon as sampled answers reach this pass rate on the warm-up's own questions."
    )
    max_steps: Positive = key(400, "Stop after so many supervised steps in any case.")
    eval_every: Positive = key(5, "Supervised steps between two measurements of the pass rate.")
    batch_size: Positive = key(256, "Questions per supervised step.")
    lr: Rate = key(2e-3, "Learning rate of the supervised steps.")
    lr_warmup_steps: NotNegative = key(20, "Steps over which that rate rises from zero.")


class Model(Section, concerns="model"):
    """The start model."""

    path: str = key(
        "placeholder",
        "Folder or Hugging Face name of the model to train, or `tiny`: create a small one from "
        "`ajet.model.tiny`. The default stands for nothing and has to be replaced.",
        min_length=1,
    )
    tiny: TinyModel = section(TinyModel, "Recipe of the model that `tiny` means.")
    warmup: Warmup = section(Warmup, "Supervised start of the tiny model.")
