"""From keys of `ajet:` to keys of verl's own tree: one table, and what a CPU needs on top of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from trainer_core.types import TrainingError

if TYPE_CHECKING:
    from trainer_core.config.schema import Ajet

_ACTOR, _MODEL, _ROLLOUT = (f"actor_rollout_ref.{name}" for name in ("actor", "model", "rollout"))
TARGETS: Mapping[str, tuple[str, ...]] = {
    "project_name": ("trainer.project_name",),
    "experiment_name": ("trainer.experiment_name",),
    "model.path": (f"{_MODEL}.path",),
    "data.max_prompt_length": ("data.max_prompt_length",),
    "data.max_response_length": ("data.max_response_length",),
    "data.train_batch_size": ("data.train_batch_size",),
    "rollout.name": (f"{_ROLLOUT}.name",),
    "rollout.num_repeat": (f"{_ROLLOUT}.n",),
    "rollout.temperature": (f"{_ROLLOUT}.temperature",),
    "rollout.top_p": (f"{_ROLLOUT}.top_p",),
    "rollout.top_k": (f"{_ROLLOUT}.top_k",),
    "rollout.max_model_len": (f"{_ROLLOUT}.max_model_len",),
    "rollout.max_num_seqs": (f"{_ROLLOUT}.max_num_seqs",),
    "rollout.gpu_memory_utilization": (f"{_ROLLOUT}.gpu_memory_utilization",),
    "rollout.free_cache_engine": (f"{_ROLLOUT}.free_cache_engine",),
    "rollout.tensor_model_parallel_size": (f"{_ROLLOUT}.tensor_model_parallel_size",),
    "rollout.ppo_max_token_len_per_gpu": (f"{_ACTOR}.ppo_max_token_len_per_gpu",),
    "rollout.val_kwargs.temperature": (f"{_ROLLOUT}.val_kwargs.temperature",),
    "rollout.val_kwargs.top_p": (f"{_ROLLOUT}.val_kwargs.top_p",),
    "rollout.val_kwargs.top_k": (f"{_ROLLOUT}.val_kwargs.top_k",),
    "rollout.val_kwargs.do_sample": (f"{_ROLLOUT}.val_kwargs.do_sample",),
    "trainer_common.nnodes": ("trainer.nnodes",),
    "trainer_common.n_gpus_per_node": ("trainer.n_gpus_per_node",),
    "trainer_common.device": ("trainer.device",),
    "trainer_common.seed": (f"{_ACTOR}.fsdp_config.seed", f"{_ROLLOUT}.seed"),
    "trainer_common.enable_gradient_checkpointing": (f"{_MODEL}.enable_gradient_checkpointing",),
    "trainer_common.fsdp_config.param_offload": (f"{_ACTOR}.fsdp_config.param_offload",),
    "trainer_common.fsdp_config.optimizer_offload": (f"{_ACTOR}.fsdp_config.optimizer_offload",),
    "trainer_common.strategy": (f"{_ACTOR}.strategy",),
    **{
        f"trainer_common.megatron.{name}": (f"{_ACTOR}.megatron.{name}",)
        for name in ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size")
    },
    "trainer_common.ref_param_offload": ("actor_rollout_ref.ref.fsdp_config.param_offload",),
    "trainer_common.ulysses_sequence_parallel_size": (
        f"{_ACTOR}.ulysses_sequence_parallel_size",
        f"{_ACTOR}.fsdp_config.ulysses_sequence_parallel_size",
    ),
    "trainer_common.ppo_epochs": (f"{_ACTOR}.ppo_epochs",),
    "trainer_common.clip_ratio_low": (f"{_ACTOR}.clip_ratio_low",),
    "trainer_common.clip_ratio_high": (f"{_ACTOR}.clip_ratio_high",),
    "trainer_common.use_kl_loss": (f"{_ACTOR}.use_kl_loss",),
    "trainer_common.kl_loss_coef": (f"{_ACTOR}.kl_loss_coef",),
    "trainer_common.kl_loss_type": (f"{_ACTOR}.kl_loss_type",),
    "trainer_common.kl_penalty_type": ("algorithm.kl_penalty",),
    "trainer_common.algorithm.adv_estimator": ("algorithm.adv_estimator",),
    "trainer_common.algorithm.gamma": ("algorithm.gamma",),
    "trainer_common.algorithm.use_kl_in_reward": ("algorithm.use_kl_in_reward",),
    "trainer_common.algorithm.kl_ctrl.kl_coef": ("algorithm.kl_ctrl.kl_coef",),
    "trainer_common.algorithm.norm_adv_by_std": ("algorithm.norm_adv_by_std_in_grpo",),
    "trainer_common.algorithm.clip_ratio_c": (f"{_ACTOR}.clip_ratio_c",),
    "trainer_common.algorithm.tau_pos": (f"{_ACTOR}.tau_pos",),
    "trainer_common.algorithm.tau_neg": (f"{_ACTOR}.tau_neg",),
    "trainer_common.algorithm.loss_agg_mode": (f"{_ACTOR}.loss_agg_mode",),
    "trainer_common.optim.optimizer": (f"{_ACTOR}.optim.optimizer",),
    "trainer_common.optim.lr": (f"{_ACTOR}.optim.lr",),
    "trainer_common.optim.betas": (f"{_ACTOR}.optim.betas",),
    "trainer_common.optim.weight_decay": (f"{_ACTOR}.optim.weight_decay",),
    "trainer_common.optim.grad_clip": (f"{_ACTOR}.optim.clip_grad",),
    "lora.lora_rank": (f"{_MODEL}.lora_rank",),
    "lora.lora_alpha": (f"{_MODEL}.lora_alpha",),
    "lora.target_modules": (f"{_MODEL}.target_modules",),
}
"""Keys below `ajet`, and where they stand in verl's tree. What verl's engines read is there; the algorithm's
own keys are there too, so that the tree says what the run does, though our loop computes it."""


def targets(path: str) -> tuple[str, ...]:
    """Where a key of ours, seen from the root, stands in verl's tree; () where verl has nothing like it."""
    return TARGETS.get(path.removeprefix("ajet."), ())


def places(ajet: Ajet) -> dict[str, tuple[str, ...]]:
    """`TARGETS` in the tree of the strategy."""
    if ajet.trainer_common.strategy == "fsdp2":
        return {path: found for path, found in TARGETS.items() if ".megatron." not in path}
    return {
        path: tuple(place.replace(".fsdp_config.", ".megatron.") for place in found)
        for path, found in TARGETS.items()
        if "ulysses" not in path
    }


def translated(ajet: Ajet) -> dict[str, Any]:
    """Values by their path in verl's tree: those of the table that are set, and what our worker needs."""
    values: dict[str, Any] = {}
    for path, found in places(ajet).items():
        value = attrgetter(path)(ajet)
        if value is not None:
            values |= dict.fromkeys(found, list(value) if isinstance(value, tuple) else value)
    common = ajet.trainer_common
    return values | {
        f"{_ACTOR}.use_dynamic_bsz": True,
        f"{_ROLLOUT}.dtype": "float32" if common.model_dtype == "fp32" else "bfloat16",
        f"{_MODEL}.lora.merge": True,  # into the weights that verl's servers get
        f"{_ACTOR}.optim.total_training_steps": 1,  # of a schedule that is not used: our loop sends the rate
        **(_of_fsdp(ajet) if common.strategy == "fsdp2" else _OF_MEGATRON),
        **(_RECOMPUTED if common.strategy == "megatron" and common.enable_gradient_checkpointing else {}),
    }


def _of_fsdp(ajet: Ajet) -> dict[str, Any]:
    exact = "fp32" if ajet.trainer_common.model_dtype == "fp32" else "bf16"
    return {
        f"{_ACTOR}.fsdp_config.strategy": "fsdp2",
        f"{_ACTOR}.fsdp_config.mixed_precision": {
            "param_dtype": exact, "reduce_dtype": "fp32", "buffer_dtype": "fp32"
        },
        **(_WITHOUT_FLASH if lacks_flash_attention(ajet) else {}),
        **(_ON_CPU if ajet.trainer_common.device == "cpu" else {}),
    }  # fmt: skip


def lacks_flash_attention(ajet: Ajet) -> bool:
    """True if another attention than verl's usual one computes: that needs a GPU and 16-bit numbers."""
    return ajet.trainer_common.device == "cpu" or ajet.trainer_common.model_dtype == "fp32"


def raw_keys(section: str, tree: Mapping[str, Any], targets: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The keys of `verl:` or `trinity:` by their path.

    Raises:
        TrainingError: one has a name in `ajet:`.
    """
    ours = {target: path for path, places in targets.items() for target in places}
    for path, value in leaves(tree):
        if path in ours:
            raise TrainingError(f"{section}.{path} is set by ajet.{ours[path]}; set that key instead")
        yield path, value


def leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values of a tree of mappings by their dotted path."""
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


_ON_CPU: Mapping[str, Any] = {
    f"{_ACTOR}.use_torch_compile": False,
    f"{_ACTOR}.fsdp_config.use_torch_compile": False,
    f"{_ACTOR}.fsdp_config.param_offload": False,
    f"{_ACTOR}.fsdp_config.optimizer_offload": False,
    "actor_rollout_ref.ref.fsdp_config.param_offload": False,
}
"""There is nowhere to offload to, and no compiler to wait for."""
_OF_MEGATRON: Mapping[str, Any] = {f"{_ACTOR}.optim.optimizer": "adam"}
"""Whose weight decay is that of AdamW."""
_RECOMPUTED: Mapping[str, Any] = {
    f"{_ACTOR}.megatron.override_transformer_config.recompute_granularity": "full",
    f"{_ACTOR}.megatron.override_transformer_config.recompute_method": "uniform",
    f"{_ACTOR}.megatron.override_transformer_config.recompute_num_layers": 1,
}
_WITHOUT_FLASH: Mapping[str, Any] = {f"{_MODEL}.override_config": {"attn_implementation": "sdpa"}}
