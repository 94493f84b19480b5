"""Backbone `local`: engines on transformers and torch, in this process."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from trainer_core.backbone.inference import closes, on_transformers, on_vllm
from trainer_core.bounds import MICRO_BATCH_TOKENS
from trainer_core.config.section import path_of
from trainer_core.engine.local_training import LocalTraining
from trainer_core.engine.protocols import Engines
from trainer_core.engine.start_model import (
    StartModel,
    load_model,
    load_tokenizer,
    tiny_start_model,
    weights_digest,
)
from trainer_core.engine.tiny_model import TinyModel, make_tokenizer
from trainer_core.seeds import derive_seed
from trainer_core.types import TaskSplits, TrainingError

if TYPE_CHECKING:
    from trainer_core.config.schema import Ajet, Config


def read_tokenizer(ajet: Ajet) -> Any:
    """The tokenizer of the model, cheaply: prompts are looked at before the model is made."""
    return make_tokenizer() if ajet.model.path == "tiny" else load_tokenizer(_folder(ajet.model.path))


def make_engines(
    config: Config,
    tasks: TaskSplits,
    closing: ExitStack,
    *,
    say: Callable[[str], None],
    safe_point: Callable[[], None],
) -> Engines:
    """Engines on the start model; the reference is a copy of the model as it is now. `closing` ends them.

    Raises:
        TrainingError: there is no such model or device, or the model does not fit.
    """
    ajet, common, rollout = config.ajet, config.ajet.trainer_common, config.ajet.rollout
    optim = common.optim
    if common.device == "cuda" and not torch.cuda.is_available():
        raise TrainingError("ajet.trainer_common.device: torch sees no GPU here. Write cpu, or leave it out")
    start = start_model(ajet, tasks, say=say, safe_point=safe_point)
    digest, parameters = weights_digest(start.model), start.model.num_parameters()
    lora = ajet.lora if ajet.lora.lora_rank else None
    needs_copy = lora is None and common.uses_reference
    training = LocalTraining(
        start.model,
        copy.deepcopy(start.model) if needs_copy else None,
        betas=optim.betas,
        weight_decay=optim.weight_decay,
        temperature=rollout.temperature,
        max_tokens=rollout.ppo_max_token_len_per_gpu or MICRO_BATCH_TOKENS,
        device=common.device,
        dtype=torch.float32 if common.model_dtype == "fp32" else torch.bfloat16,
        gradient_checkpointing=common.enable_gradient_checkpointing,
        offload_reference=common.ref_param_offload,
        lora=lora,
        lora_seed=derive_seed(common.seed, "lora", 0),
    )
    if rollout.inference == "vllm":
        inference = on_vllm(ajet, start.folder, training, closing, say=say, safe_point=safe_point)
    elif common.one_step_off_policy:  # it samples while the weights are trained, so that it needs its own
        inference = on_transformers(ajet, copy.deepcopy(start.model), start.tokenizer, start.model.state_dict)
    else:
        inference = on_transformers(ajet, start.model, start.tokenizer, None)
    closing.callback(closes(inference))
    return Engines(
        training,
        inference,
        start_digest=digest,
        context=getattr(start.model.config, "max_position_embeddings", None),
        facts={"model_parameters": parameters, "start_model_cache_key": start.cache_key},
    )


def start_folder(
    ajet: Ajet, tasks: TaskSplits, *, say: Callable[[str], None], safe_point: Callable[[], None]
) -> str:
    """Where the start model is, a folder or a name of the hub; a tiny one is made and put into one."""
    if ajet.model.path != "tiny":
        return _folder(ajet.model.path)
    return start_model(ajet, tasks, say=say, safe_point=safe_point).folder


def start_model(
    ajet: Ajet, tasks: TaskSplits, *, say: Callable[[str], None], safe_point: Callable[[], None]
) -> StartModel:
    """The model at `model.path`, or the tiny one this config describes."""
    model = ajet.model
    if model.path != "tiny":
        say(f"loading {model.path}")
        return load_model(_folder(model.path))
    seed = ajet.trainer_common.seed if model.tiny.seed is None else model.tiny.seed
    recipe = TinyModel(
        **model.tiny.model_dump(exclude={"num_key_value_heads", "seed"}),
        num_key_value_heads=model.tiny.num_key_value_heads or model.tiny.num_attention_heads,
        max_position_embeddings=ajet.rollout.max_model_len,
        seed=seed,
    )
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ajet" / "start_models"
    return tiny_start_model(
        recipe,
        model.warmup if model.warmup.enabled else None,
        tasks,
        cache,
        is_for_a_look=ajet.backbone == "debug",
        say=say,
        safe_point=safe_point,
    )


def _folder(path: str) -> str:
    return str(path_of(path)) if path.startswith("~") else path
