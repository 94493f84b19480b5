"""Backbone `verl`: trains on verl's workers; samples with vLLM (verl's or ours) or on transformers here."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import torch
from transformers import AutoConfig

from trainer_core.backbone import local
from trainer_core.backbone.inference import closes, exported, on_transformers, on_vllm
from trainer_core.bounds import MICRO_BATCH_TOKENS
from trainer_core.config.verl import translated
from trainer_core.engine.protocols import Engines, InferenceEngine
from trainer_core.engine.start_model import load_model
from trainer_core.types import TaskSplits

if TYPE_CHECKING:
    from trainer_core.config.schema import Config

read_tokenizer = local.read_tokenizer
_ON_CPU = {
    "VERL_USE_EXTERNAL_MODULES": "trainer_core.engine.verl.cpu_platform",
    "VERL_PLATFORM": "cpu",
    "VERL_ENGINE_DEVICE": "cuda",
}
"""For every process that imports verl, before it does. verl's engines are registered for `cuda`."""
_SAMPLED_BYTES = 2**20
"""Of each end of a weight file that goes into its digest."""


def prepare(config: Config) -> None:
    """Set what verl reads from the environment when it is imported; nothing of it is before."""
    common = config.ajet.trainer_common
    os.environ.setdefault("VERL_LOGGING_LEVEL", "WARN")
    if common.device == "cpu":
        os.environ.update(_ON_CPU, OMP_NUM_THREADS=str(common.num_threads))


def look(config: Config) -> dict[str, Any]:
    """What is set in verl's tree, by path, checked against the verl that is installed.

    Raises:
        TrainingError: verl refuses the config.
    """
    prepare(config)
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        from trainer_core.engine.verl.settings import check, raw, verl_tree

        on_cpu = config.ajet.trainer_common.device == "cpu"  # a config for GPUs may be of another machine
        check(verl_tree(config), starts=on_cpu, is_hybrid=config.ajet.rollout.inference == "verl")
        return {**translated(config.ajet), **raw(config)}


def make_engines(
    config: Config,
    tasks: TaskSplits,
    closing: ExitStack,
    *,
    say: Callable[[str], None],
    safe_point: Callable[[], None],
) -> Engines:
    """Engines on the start model; `closing` ends what they started. What verl prints goes to `verl.log`.

    Raises:
        TrainingError: there is no such model, device, package or cluster, or verl refuses the config.
    """
    prepare(config)
    ajet, common, rollout = config.ajet, config.ajet.trainer_common, config.ajet.rollout
    folder = local.start_folder(ajet, tasks, say=say, safe_point=safe_point)
    is_lora = ajet.lora.lora_rank > 0
    needs_copy = not is_lora and common.uses_reference
    size = common.nnodes * common.n_gpus_per_node
    is_hybrid = rollout.inference == "verl"
    in_process = size == 1 and common.ray == "auto" and not is_hybrid
    say(f"verl trains {'in this process' if in_process else f'on Ray, {size} workers'}")
    # open to the end: libraries that are imported meanwhile go on logging to it
    log = closing.enter_context(Path(ajet.experiment_dir, "verl.log").open("a"))  # noqa: SIM115
    with redirect_stdout(log), redirect_stderr(log):
        from trainer_core.engine.verl.settings import check, verl_tree, without_flash_attention
        from trainer_core.engine.verl.training import VerlTraining

        tree = verl_tree(config)
        tree.actor_rollout_ref.model.path = folder
        check(tree, starts=True, is_hybrid=is_hybrid)
        is_without = without_flash_attention(tree)
        make = _worker_maker(config, tree, closing, log, in_process=in_process)
        policy, reference = make("actor"), make("ref") if needs_copy else None
    if is_without and common.device == "cuda":
        say("flash-attn is not installed: verl computes attention with torch, slower over long sequences")
    training = VerlTraining(
        policy,
        reference,
        world_size=size // common.model_parallel_size,
        sharing=common.sequence_parallel_size,
        max_tokens=rollout.ppo_max_token_len_per_gpu or MICRO_BATCH_TOKENS,
        temperature=rollout.temperature,
        grad_clip=common.optim.grad_clip,
        is_lora=is_lora,
    )
    inference: InferenceEngine
    if is_hybrid:
        say("verl starts its vLLM servers")
        with redirect_stdout(log), redirect_stderr(log):
            from trainer_core.engine.verl.inference import start_servers

            inference = start_servers(tree, policy, limit_s=common.worker_timeout)
    elif rollout.inference == "vllm":
        inference = on_vllm(ajet, folder, training, closing, say=say, safe_point=safe_point)
    else:
        own = load_model(folder)
        own.model.to(common.device, torch.float32 if common.model_dtype == "fp32" else torch.bfloat16)
        inference = on_transformers(ajet, own.model, own.tokenizer, lambda: exported(training.export))
    closing.callback(closes(inference))
    context = getattr(AutoConfig.from_pretrained(folder), "max_position_embeddings", None)
    return Engines(training, inference, digest_of(Path(folder)), context, {"model_folder": folder})


def _worker_maker(
    config: Config, tree: Any, closing: ExitStack, log: TextIO, *, in_process: bool
) -> Callable[[str], Any]:
    """Makes a worker, or a group of them, as verl's `tree` says: as `actor`, or as `ref`, whose weights
    stay in main memory between uses where its own key says so. Their stacks go to `log`."""
    from trainer_core.engine.verl.settings import worker_settings
    from trainer_core.engine.verl.training import in_this_process
    from trainer_core.engine.verl.watch import WatchedGroup, WatchedWorker

    common = config.ajet.trainer_common

    def settings(role: str) -> Any:
        own, engine = tree.copy(), "fsdp_config" if common.strategy == "fsdp2" else "megatron"
        offload = tree.actor_rollout_ref[role][engine].param_offload
        own.actor_rollout_ref.actor[engine].param_offload = offload
        return worker_settings(own)

    if in_process:
        return lambda role: WatchedWorker(in_this_process(settings(role)), common.worker_timeout, log)
    from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

    from trainer_core.engine.verl.group import GROUPS, join_ray, make_pool, on_ray
    from trainer_core.engine.verl.worker import HybridWorker, SplitWorker

    environment = get_ppo_ray_runtime_env(tree)["env_vars"]
    environment |= {"OMP_NUM_THREADS": str(common.num_threads), "VERL_LOGGING_LEVEL": "WARN"}
    environment |= _ON_CPU if common.device == "cpu" else {}
    address = os.environ.get("RAY_ADDRESS", "auto") if common.ray == "cluster" else "local"
    is_hybrid, per_node = config.ajet.rollout.inference == "verl", common.n_gpus_per_node
    beside = per_node + 1 if is_hybrid else 0  # servers, and what shares requests out among them
    closing.callback(join_ray(address, GROUPS * common.nnodes * per_node + beside, environment))
    pool = make_pool(common.nnodes, per_node, use_gpu=common.device == "cuda", beside=beside)

    def make(role: str) -> WatchedGroup:
        if is_hybrid and role == "actor":
            own = {"config": tree.actor_rollout_ref, "role": "actor_rollout"}
            group = on_ray(HybridWorker, pool, common.device, **own)
        else:
            group = on_ray(SplitWorker, pool, common.device, config=settings(role))
        return WatchedGroup(group, common.worker_timeout, Path(log.name))

    return make


def digest_of(folder: Path) -> str:
    """SHA-256 over the names, sizes and both ends of the weight files in a folder: to read a large model's
    whole takes minutes. Of a model that is not in a folder, its name."""
    digest = hashlib.sha256(b"" if folder.is_dir() else str(folder).encode())
    for path in sorted((*folder.glob("*.safetensors"), *folder.glob("*.bin"))):
        with path.open("rb") as weights:
            digest.update(f"{path.name} {path.stat().st_size} ".encode() + weights.read(_SAMPLED_BYTES))
            weights.seek(max(0, path.stat().st_size - _SAMPLED_BYTES))
            digest.update(weights.read())
    return digest.hexdigest()
