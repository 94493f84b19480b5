"""`ajet.model`: which language model is trained, and how a small one is made from nothing."""

from typing import Literal

from pydantic import Field

from trainer_core.config.section import NotNegative, Positive, Rate, Section


class TinyModel(Section, concerns="model"):
    """A transformer small enough for a CPU, created from a seed; nothing is downloaded."""

    architecture: Literal["qwen2"] = Field(
        default="qwen2", description="Transformer family of the created model."
    )
    hidden_size: Positive = Field(default=64, description="Width of the residual stream.")
    num_hidden_layers: Positive = Field(default=2, description="Number of transformer blocks.")
    num_attention_heads: Positive = Field(
        default=4, description="Attention heads; must divide `hidden_size`."
    )
    num_key_value_heads: Positive | None = Field(
        default=None,
        description="Key/value heads; must divide `num_attention_heads`. null: as many as those.",
    )
    intermediate_size: Positive = Field(default=192, description="Width of the feed-forward layer.")
    seed: NotNegative | None = Field(
        default=None, description="Seed of the first weights. null: `ajet.trainer_common.seed`."
    )


class Warmup(Section, concerns="model"):
    """Supervised training of the tiny model before reinforcement learning, so that it is right sometimes."""

    enabled: bool = Field(
        default=True, description="Warm the tiny model up; the result is cached for later runs."
    )
    until_pass_rate: float = Field(
        default=0.2,
        gt=0,
        le=1,
        description="Stop as soon as sampled answers reach this pass rate on the warm-up's own questions.",
    )
    max_steps: Positive = Field(default=400, description="Stop after so many supervised steps in any case.")
    eval_every: Positive = Field(
        default=5, description="Supervised steps between two measurements of the pass rate."
    )
    batch_size: Positive = Field(default=256, description="Questions per supervised step.")
    lr: Rate = Field(default=2e-3, description="Learning rate of the supervised steps.")
    lr_warmup_steps: NotNegative = Field(
        default=20, description="Steps over which that rate rises from zero."
    )


class Model(Section, concerns="model"):
    """The start model."""

    path: str = Field(
        default="placeholder",
        min_length=1,
        description="Folder or Hugging Face name of the model to train, or `tiny`: create a small one from "
        "`ajet.model.tiny`. The default stands for nothing and has to be replaced.",
    )
    tiny: TinyModel = Field(default_factory=TinyModel, description="Recipe of the model that `tiny` means.")
    warmup: Warmup = Field(default_factory=Warmup, description="Supervised start of the tiny model.")
