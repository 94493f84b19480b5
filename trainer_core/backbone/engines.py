"""From the config's words to the local engines' settings."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer_core.engine.local_training import LocalTraining, UpdateSettings
from trainer_core.engine.start_model import StartModel, load_model, tiny_start_model
from trainer_core.engine.tiny_model import TinyModel
from trainer_core.engine.warmup import WarmupSettings
from trainer_core.types import TaskSplits

if TYPE_CHECKING:
    from trainer_core.config.model import Model
    from trainer_core.config.schema import Ajet


def start_model(
    ajet: Ajet, tasks: TaskSplits, *, say: Callable[[str], None], safe_point: Callable[[], None]
) -> StartModel:
    """The model at `model.path`, or the tiny one this config describes."""
    model = ajet.model
    if model.path != "tiny":
        say(f"loading {model.path}")
        return load_model(str(Path(model.path).expanduser()) if model.path.startswith("~") else model.path)
    seed = ajet.trainer_common.seed if model.tiny.seed is None else model.tiny.seed
    recipe = TinyModel(
        architecture=model.tiny.architecture,
        hidden_size=model.tiny.hidden_size,
        num_hidden_layers=model.tiny.num_hidden_layers,
        num_attention_heads=model.tiny.num_attention_heads,
        num_key_value_heads=model.tiny.num_key_value_heads or model.tiny.num_attention_heads,
        intermediate_size=model.tiny.intermediate_size,
        max_position_embeddings=ajet.rollout.max_model_len,
        seed=seed,
    )
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ajet" / "start_models"
    return tiny_start_model(
        recipe, _warmup_settings(model, seed), tasks, cache, say=say, safe_point=safe_point
    )


def training_engine(ajet: Ajet, model: Any) -> LocalTraining:
    """The training engine for this model; its reference is a copy of the model as it is now."""
    common = ajet.trainer_common
    optim = common.optim
    settings = UpdateSettings(
        lr=optim.lr,
        betas=optim.betas,
        weight_decay=optim.weight_decay,
        grad_clip=optim.grad_clip,
        lr_warmup_steps=optim.lr_warmup_steps,
        temperature=ajet.rollout.temperature,
        mini_batch_num=common.mini_batch_num,
        ppo_epochs=common.ppo_epochs,
        clip_ratio_low=common.clip_ratio_low,
        clip_ratio_high=common.clip_ratio_high,
        kl_loss_coef=common.kl_loss_coef if common.use_kl_loss else None,
        kl_loss_type=common.kl_loss_type,
        seed=common.seed,
    )
    return LocalTraining(model, copy.deepcopy(model) if common.use_kl_loss else None, settings)


def _warmup_settings(model: Model, seed: int) -> WarmupSettings | None:
    warmup = model.warmup
    if not warmup.enabled:
        return None
    return WarmupSettings(
        until_pass_rate=warmup.until_pass_rate,
        max_steps=warmup.max_steps,
        eval_every=warmup.eval_every,
        batch_size=warmup.batch_size,
        lr=warmup.lr,
        lr_warmup_steps=warmup.lr_warmup_steps,
        seed=seed,
    )
