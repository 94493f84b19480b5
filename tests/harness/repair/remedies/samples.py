"""Configs of the trees that are known, and situations made of them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.repair.remedies import Machine, Remedy, Situation, remedies_for
from tests.harness.runs import found

QUICKSTART = (Path(__file__).parents[4] / "blueprints" / "quickstart" / "config.yaml").read_text()
AJET = """\
ajet:
  backbone: verl   # on GPUs
  model: {path: Qwen/Qwen2.5-7B-Instruct}
  data: {max_prompt_length: 3000, max_response_length: 5000, train_batch_size: 32}
  rollout:
    num_repeat: 8
    temperature: 0.9
    gpu_memory_utilization: 0.85   # of 80 GiB
    max_num_seqs: 64
    max_model_len: 4000
    tensor_model_parallel_size: 4
    ppo_max_token_len_per_gpu: 18000
  trainer_common:
    seed: 7
    n_gpus_per_node: 8
    logger: swanlab
    fsdp_config: {param_offload: false, optimizer_offload: false}
    optim: {lr: 1e-6}
  interchange_server: {interchange_server_port: 18000}
"""
VERL = """\
data:
  train_files: /data/train.parquet
  train_batch_size: 1024
  max_prompt_length: 512
  max_response_length: 1024
actor_rollout_ref:
  model:
    path: Qwen/Qwen2.5-7B-Instruct
    enable_gradient_checkpointing: false
  actor:
    ppo_mini_batch_size: 256
    ppo_micro_batch_size_per_gpu: 8   # per GPU
    optim: {lr: 1e-6}
    fsdp_config: {param_offload: false}
  rollout:
    name: vllm
    n: 5
    gpu_memory_utilization: 0.6
    tensor_model_parallel_size: 4
    log_prob_micro_batch_size_per_gpu: 16
  ref:
    log_prob_micro_batch_size_per_gpu: 16
trainer: {logger: console, nnodes: 1, n_gpus_per_node: 8, save_freq: 20}
"""
HUGGINGFACE = """\
model_name_or_path: Qwen/Qwen2.5-0.5B
dataset_name: trl-lib/tldr
per_device_train_batch_size: 8
gradient_accumulation_steps: 2   # 8 GPUs
learning_rate: 1e-5
max_prompt_length: 512
max_completion_length: 256
num_generations: 8
use_vllm: true
vllm_gpu_memory_utilization: 0.4
attn_implementation: flash_attention_2
torch_compile: true
dataloader_num_workers: 4
report_to: wandb
seed: 42
"""
PLAIN = """\
train: {batch_size: 16, grad_accum: 1, lr: 0.1, steps: 100}
data: {num_workers: 3}
port: 29511
save_total_limit: 20
"""
CONFIGS = {"quickstart": QUICKSTART, "ajet": AJET, "verl": VERL, "huggingface": HUGGINGFACE, "plain": PLAIN}

MACHINE = Machine(
    free_port=lambda: 31234,
    is_taken=lambda port: True,
    cpu_count=lambda: 16,
    open_files=lambda: (1024, 4096),
    is_cached=lambda model, revision: True,
    owned=lambda what: 2,
    why_not_install=str,
)
"""A machine where everything is there."""


def situation(
    config: str = "",
    environment: dict[str, str] | None = None,
    command: str = "",
    tried: tuple[str, ...] = (),
    protected: tuple[str, ...] = (),
    machine: dict[str, Any] | None = None,
    **diagnosis: Any,
) -> Situation:
    """A failure of a run with this config; `diagnosis`: captures and whatever else it says."""
    given = {"confidence": 0.9, "transient": False, "wait_s": 0.0, "cause": "", **diagnosis}
    here = replace(MACHINE, **(machine or {}))
    return Situation(found(given), config, environment or {}, command, tried, protected, here)


def remedy(name: str, config: str = "", **given: Any) -> Remedy | None:
    """What this one remedy comes to."""
    return next(iter(remedies_for([name], situation(config, **given))), None)


def values(name: str, config: str = "", **given: Any) -> dict[str, Any]:
    """The keys and variables that this remedy sets, {} where it does not apply."""
    made = remedy(name, config, **given)
    return {**made.edits, **made.environment} if made else {}
