"""What this machine has, against what a run needs: memory, GPUs, and the keys that bring the two together."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from trainer_core.backbone.memory import Memory, kept
from trainer_core.backbone.schedule import longest_response
from trainer_core.bounds import MICRO_BATCH_TOKENS
from trainer_core.config.problems import Finding
from trainer_core.config.schema import Ajet
from trainer_core.engine.shape import ModelShape

_ASKS_S = 20.0
OFFLOAD_POLICY = "verl.actor_rollout_ref.actor.fsdp_config.offload_policy"
"""verl's own key: sharded state stays in main memory while it trains, too."""


def main_memory() -> int:
    """Bytes of this machine, or of the container that this is."""
    there = psutil.virtual_memory().total
    with suppress(OSError, ValueError):  # no such file, or no limit
        there = min(there, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="utf-8")))
    return there


def gpu_memory() -> list[int]:
    """Bytes of each GPU of this machine; [] where none is seen."""
    if (program := shutil.which("nvidia-smi")) is None:
        return []
    command = [program, "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ASKS_S, check=True)
        return [int(line) * 2**20 for line in done.stdout.split()]
    return []


def misfits(ajet: Ajet, shape: ModelShape) -> Iterator[Finding]:
    """What is refused later, in verl's or vLLM's own words: heads of the model that GPUs do not divide
    (both repeat key/value heads where there are fewer than GPUs), and a context that the model has not."""
    common, rollout, is_vllm = ajet.trainer_common, ajet.rollout, ajet.rollout.asks_vllm
    divided = []
    if common.device == "cuda" and ajet.backbone == "verl":
        key = "ajet.trainer_common.ulysses_sequence_parallel_size"
        divided.append((key, common.ulysses_sequence_parallel_size))
        key, parts = "ajet.trainer_common.megatron", common.megatron.pipeline_model_parallel_size
        divided.append((f"{key}.tensor_model_parallel_size", common.megatron.tensor_model_parallel_size))
        if shape.layers % parts:
            why = f"the model's {shape.layers} layers are not divided by {parts}"
            fix = f"Write a divisor of {shape.layers}."
            yield Finding(f"{key}.pipeline_model_parallel_size", parts, "refused", why, fix)
    if common.device == "cuda" and is_vllm:
        divided.append(("ajet.rollout.tensor_model_parallel_size", rollout.tensor_model_parallel_size))
    heads, pairs = shape.heads, shape.key_value_heads
    for key, size in divided:
        if heads % size or (pairs % size and size % pairs):
            why = f"{size} GPUs cannot share the model's {heads} attention and {pairs} key/value heads"
            fits = [n for n in range(1, heads + 1) if not heads % n and not (pairs % n and n % pairs)]
            yield Finding(key, size, "refused", why, f"Write {' or '.join(map(str, fits))}.")
    if is_vllm and shape.context is not None and rollout.max_model_len > shape.context:
        why = f"the model has {shape.context} positions (max_position_embeddings), and vLLM refuses to start"
        fix = "Lower it, and data.max_prompt_length and max_response_length with it."
        yield Finding("ajet.rollout.max_model_len", rollout.max_model_len, "refused", why, fix)


def shortages(ajet: Ajet, memory: Memory | None, gpus: list[int]) -> Iterator[Finding]:
    """Where the run needs more than there is, and the key to turn. `gpus`: as `gpu_memory` gives them."""
    common, rollout = ajet.trainer_common, ajet.rollout
    if common.device == "cpu":
        if memory is not None:
            yield from _shortage(ajet, memory.device, main_memory(), "of memory, and this machine has")
        return
    is_vllm, size = rollout.asks_vllm, rollout.tensor_model_parallel_size
    if rollout.inference == "vllm" and gpus and size > len(gpus):
        why = f"the vLLM server runs on this machine, which has {len(gpus)} GPUs"
        yield _doubt("ajet.rollout.tensor_model_parallel_size", size, why, f"Write {len(gpus)} or less.")
    if memory is None:
        return
    yield from _shortage(ajet, memory.host, main_memory(), "of main memory, and this machine has")
    if not gpus:
        return
    needed, there = sum(memory.device.values()), min(gpus)
    yield from _shortage(ajet, memory.device, there, "of each GPU, which has")
    share, turns = rollout.gpu_memory_utilization, rollout.free_cache_engine
    beside = kept(memory, ajet) if turns else needed
    if is_vllm and needed < there < beside + share * there:
        left = int(100 * (there - beside) / there) / 100
        trains = f"training {'keeps' if turns else 'needs'} {size_of(beside)} of {size_of(there)}"
        ways = [f"lower it to {left:.2f}"] if left else []
        ways += [] if turns else ["set rollout.free_cache_engine: true"]
        if rollout.inference == "vllm":
            ways += ["have a script at rollout.vllm_python set CUDA_VISIBLE_DEVICES"]
        why, fix = f"{trains}, and vLLM samples on a GPU that trains", ", or ".join(ways)
        yield _doubt("ajet.rollout.gpu_memory_utilization", share, why, f"{fix[:1].upper()}{fix[1:]}.")


def _shortage(ajet: Ajet, parts: dict[str, int], there: int, whose: str) -> Iterator[Finding]:
    if (needed := sum(parts.values())) > there:
        largest = next(iter(parts))
        key, value, fix = _remedy(ajet, largest)
        why = f"the training may need {size_of(needed)} {whose} {size_of(there)}"
        yield _doubt(key, value, f"{why}; most of it are {largest}: {size_of(parts[largest])}", fix)


def _remedy(ajet: Ajet, part: str) -> tuple[str, object, str]:
    """The key to turn where this part is the largest, what it is set to, and how."""
    common, rollout = ajet.trainer_common, ajet.rollout
    is_verl, on_gpu = ajet.backbone == "verl", common.device == "cuda"
    if part in ("activations", "logits", "attention mask"):
        if part == "activations" and not common.enable_gradient_checkpointing:
            return "ajet.trainer_common.enable_gradient_checkpointing", False, "Write true."
        tokens = rollout.ppo_max_token_len_per_gpu or MICRO_BATCH_TOKENS
        shared = common.ulysses_sequence_parallel_size
        longest = -(-(ajet.data.max_prompt_length + longest_response(ajet)) // shared)
        if tokens > longest:
            fix = f"Lower it, to {longest} at the least."
            return "ajet.rollout.ppo_max_token_len_per_gpu", tokens, fix
        if is_verl and on_gpu:
            fix = "Raise it: so many GPUs share one sequence."
            return "ajet.trainer_common.ulysses_sequence_parallel_size", shared, fix
        return "ajet.data.max_response_length", ajet.data.max_response_length, "Lower it."
    if part in ("KV cache", "vLLM's KV cache", "sampled logits"):
        return "ajet.rollout.kv_cache_memory_bytes", rollout.kv_cache_memory_bytes, "Lower it."
    if part == "reference copy" and on_gpu and not common.ref_param_offload:
        return "ajet.trainer_common.ref_param_offload", False, "Write true."
    if part == "offloaded between updates":
        return (
            "ajet.trainer_common.fsdp_config",
            "true",
            "Write param_offload: false, optimizer_offload: false.",
        )
    if is_verl and on_gpu and part in ("weights", "optimizer", "gradients", "gathered layers"):
        fix = f"Shard over more GPUs, set {OFFLOAD_POLICY}: true, or train an adapter (lora.lora_rank)."
        return "ajet.trainer_common.n_gpus_per_node", common.n_gpus_per_node, fix
    if is_verl and part == "libraries":
        return "ajet.trainer_common.n_gpus_per_node", common.n_gpus_per_node, "Lower it: each is a process."
    return "ajet.model.path", ajet.model.path, "Take a smaller model, or train an adapter (lora.lora_rank)."


def size_of(count: int) -> str:
    """Bytes, for a person."""
    gigabytes = count / 1e9
    return f"{gigabytes:.1f} GB" if gigabytes >= 0.95 else f"{count / 1e6:.{0 if count > 1e7 else 1}f} MB"


def _doubt(key: str, value: object, why: str, fix: str) -> Finding:
    return Finding(key, value, "doubtful", why, fix)
