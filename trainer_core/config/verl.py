"""From keys of `ajet:` to keys of verl's own tree: one table, and what a CPU needs on top of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from trainer_core.types import TrainingError

if TYPE_CHECKING:
    from trainer_core.config.schema import Ajet

_ACTOR, _MODEL, _ROLLOUT = (f"actor_rollout_ref.{name}" for name in ("actor", "model", "rollout"))


def _same(ours: str, theirs: str, names: str) -> dict[str, tuple[str, ...]]:
    """Keys that have the same name in both."""
    return {f"{ours}.{name}": (f"{theirs}.{name}",) for name in names.split()}


TARGETS: Mapping[str, tuple[str, ...]] = {
    "project_name": ("trainer.project_name",),
    "experiment_name": ("trainer.experiment_name",),
    **_same("model", _MODEL, "path"),
    **_same("data", "data", "max_prompt_length max_response_length train_batch_size"),
    "rollout.num_repeat": (f"{_ROLLOUT}.n",),
    **_same("rollout", _ROLLOUT, "name temperature top_p top_k max_model_len max_num_seqs "
            "gpu_memory_utilization free_cache_engine tensor_model_parallel_size val_kwargs.temperature "
            "val_kwargs.top_p val_kwargs.top_k val_kwargs.do_sample"),
    **_same("rollout", _ACTOR, "ppo_max_token_len_per_gpu"),
    **_same("trainer_common", "trainer", "nnodes n_gpus_per_node device"),
    "trainer_common.seed": (f"{_ACTOR}.fsdp_config.seed", f"{_ROLLOUT}.seed"),
    **_same("trainer_common", _MODEL, "enable_gradient_checkpointing"),
    **_same("trainer_common", _ACTOR, "strategy fsdp_config.param_offload fsdp_config.optimizer_offload "
            "megatron.tensor_model_parallel_size megatron.pipeline_model_parallel_size "
            "megatron.context_parallel_size ppo_epochs clip_ratio_low clip_ratio_high use_kl_loss "
            "kl_loss_coef kl_loss_type"),
    "trainer_common.ref_param_offload": ("actor_rollout_ref.ref.fsdp_config.param_offload",),
    "trainer_common.ulysses_sequence_parallel_size": (
        f"{_ACTOR}.ulysses_sequence_parallel_size",
        f"{_ACTOR}.fsdp_config.ulysses_sequence_parallel_size",
    ),
    "trainer_common.kl_penalty_type": ("algorithm.kl_penalty",),
    **_same("trainer_common.algorithm", "algorithm", "adv_estimator gamma use_kl_in_reward kl_ctrl.kl_coef"),
    "trainer_common.algorithm.norm_adv_by_std": ("algorithm.norm_adv_by_std_in_grpo",),
    **_same("trainer_common.algorithm", _ACTOR, "clip_ratio_c tau_pos tau_neg loss_agg_mode"),
    **_same("trainer_common", _ACTOR, "optim.optimizer optim.lr optim.betas optim.weight_decay"),
    "trainer_common.optim.grad_clip": (f"{_ACTOR}.optim.clip_grad",),
    **_same("lora", _MODEL, "lora_rank lora_alpha target_modules"),
}  # fmt: skip
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
        f"{_ACTOR}.optim.total_training_steps": 1,  # of a schedule that is not used: our loop sends the rate
        **({f"{_MODEL}.lora.merge": True} if ajet.lora.lora_rank else {}),  # for verl's servers
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
