"""Rules that tie several keys together. In: the validated `ajet` section. Out: what is broken, by key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from trainer_core.config.verl import lacks_flash_attention

if TYPE_CHECKING:
    from trainer_core.config.schema import Ajet


_LONGEST_NAME = 255


class Violation(NamedTuple):
    """One broken rule: the key to blame, what is wrong with it, and what to do."""

    key: str
    message: str
    fix: str


def violations(ajet: Ajet) -> tuple[Violation, ...]:
    """Every broken rule, in the order of the config."""
    return (
        *_names(ajet),
        *_tiny_model(ajet),
        *_lengths(ajet),
        *_tasks(ajet),
        *_companions(ajet),
        *_correction(ajet),
        *_batches(ajet),
        *_shared_sequences(ajet),
        *_turns(ajet),
        *_verls_servers(ajet),
        *_megatron(ajet),
    )


def _names(ajet: Ajet) -> Iterator[Violation]:
    name = ajet.experiment_name
    if "/" in name or "\0" in name or name in (".", ".."):
        yield Violation(
            "ajet.experiment_name",
            "cannot be used as a folder's name.",
            "Leave out `/`; the place of the output is `ajet.experiment_dir`.",
        )
    if len(name.encode()) > _LONGEST_NAME:
        yield Violation(
            "ajet.experiment_name",
            f"is longer than the {_LONGEST_NAME} bytes of a folder's name.",
            "Shorten it.",
        )


def _tiny_model(ajet: Ajet) -> Iterator[Violation]:
    if ajet.model.path != "tiny":
        return
    tiny = ajet.model.tiny
    heads, key_value_heads = tiny.num_attention_heads, tiny.num_key_value_heads or tiny.num_attention_heads
    nearest = 2 * heads * max(1, tiny.hidden_size // (2 * heads))
    if tiny.hidden_size % (2 * heads):
        yield Violation(
            "ajet.model.tiny.hidden_size",
            f"must be a multiple of 2 x num_attention_heads (= {2 * heads}), for rotary positions.",
            f"Write a multiple of {2 * heads}, such as {nearest}.",
        )
    if heads % key_value_heads:
        yield Violation(
            "ajet.model.tiny.num_key_value_heads",
            f"must divide num_attention_heads (= {heads}).",
            "Leave it out, or write a divisor.",
        )


def _lengths(ajet: Ajet) -> Iterator[Violation]:
    data, rollout = ajet.data, ajet.rollout
    longest = data.max_prompt_length + data.max_response_length
    if longest > rollout.max_model_len:
        yield Violation(
            "ajet.rollout.max_model_len",
            f"is less than ajet.data.max_prompt_length + ajet.data.max_response_length (= {longest}).",
            f"Raise it to {longest} or leave it out, or lower one of the two.",
        )
    if rollout.max_response_length_in_one_turn > data.max_response_length:
        yield Violation(
            "ajet.rollout.max_response_length_in_one_turn",
            f"is more than ajet.data.max_response_length (= {data.max_response_length}).",
            f"Lower it to {data.max_response_length} or leave it out.",
        )
    if 0 < rollout.val_kwargs.temperature < 0.001:
        yield Violation(
            "ajet.rollout.val_kwargs.temperature",
            "is between 0 and 0.001, where logits overflow.",
            "Write 0 for the likeliest token.",
        )
    if rollout.gamma != 1.0:
        yield Violation("ajet.rollout.gamma", "has one legal value, 1.0.", "Write 1.0 or leave it out.")


def _tasks(ajet: Ajet) -> Iterator[Violation]:
    reader, trainer = ajet.task_reader, ajet.trainer_common
    if reader.type != "jsonl_dataset_file":
        return
    files = reader.jsonl_dataset_file
    validates = trainer.val_only or trainer.val_before_train or trainer.test_freq > 0
    if files.training.file_path is None and not trainer.val_only:
        yield Violation(
            "ajet.task_reader.jsonl_dataset_file.training.file_path",
            "has to name the file of training questions when ajet.task_reader.type is jsonl_dataset_file.",
            "Write its path, seen from the working directory.",
        )
    if files.validation.file_path is None and validates:
        yield Violation(
            "ajet.task_reader.jsonl_dataset_file.validation.file_path",
            "has to name the file of validation questions, because validation is on.",
            "Write its path, or set ajet.trainer_common.test_freq: -1 and val_before_train: false.",
        )


def _companions(ajet: Ajet) -> Iterator[Violation]:
    for number, program in enumerate(ajet.companions):
        if program.ready_pattern is None and program.health_url is None:
            yield Violation(
                f"ajet.companions[{number}]",
                "does not say how it is seen that it is ready.",
                "Add a ready_pattern that it prints, or a health_url that answers then.",
            )


def _correction(ajet: Ajet) -> Iterator[Violation]:
    common, prefix = ajet.trainer_common, "ajet.trainer_common.algorithm"
    algorithm = common.algorithm
    is_cut = ajet.rollout.asks_vllm and (ajet.rollout.top_p < 1.0 or ajet.rollout.top_k > 0)
    if is_cut and common.old_logprobs == "rollout":
        yield Violation(
            "ajet.trainer_common.old_logprobs",
            "is rollout, but what vLLM tells is the probability after top_p and top_k have cut.",
            "Write recompute, or leave rollout.top_p and top_k out.",
        )
    for name in ("rollout_is", "rollout_rs"):
        if getattr(algorithm, name) is not None and common.old_logprobs == "rollout":
            yield Violation(
                f"{prefix}.{name}",
                "compares with the trainer's own log-probabilities, which old_logprobs: rollout leaves out.",
                "Set ajet.trainer_common.old_logprobs: recompute.",
            )
        lower = getattr(algorithm, f"{name}_threshold_lower")
        upper = getattr(algorithm, f"{name}_threshold")
        if lower is not None and upper is not None and lower >= upper:
            yield Violation(
                f"{prefix}.{name}_threshold_lower",
                f"must be less than {name}_threshold (= {upper}).",
                "Lower it or leave it out.",
            )
    if algorithm.rollout_rs is not None and algorithm.rollout_rs_threshold is None:
        yield Violation(
            f"{prefix}.rollout_rs_threshold",
            f"has to be set with rollout_rs: {algorithm.rollout_rs}.",
            "Write a ratio above 1 for k1, such as 2.0 per token, or a distance in nats for k2 and k3.",
        )
    k1 = (algorithm.rollout_rs or "").endswith("k1")
    if k1 and algorithm.rollout_rs_threshold_lower is None and (algorithm.rollout_rs_threshold or 2) <= 1:
        yield Violation(
            f"{prefix}.rollout_rs_threshold",
            "is the largest ratio that stays, and 1 divided by it the smallest, so it must be above 1.",
            "Write a ratio above 1, or set rollout_rs_threshold_lower too.",
        )


def _batches(ajet: Ajet) -> Iterator[Violation]:
    trainer, repeats = ajet.trainer_common, ajet.rollout.num_repeat
    if trainer.one_step_off_policy and trainer.algorithm.rollout_is is None:
        yield Violation(
            "ajet.trainer_common.one_step_off_policy",
            "trains on answers of older weights, which has to be corrected.",
            "Set ajet.trainer_common.algorithm.rollout_is: token, and old_logprobs: recompute.",
        )
    workers, shared = trainer.nnodes * trainer.n_gpus_per_node, trainer.model_parallel_size
    if workers % shared:
        is_megatron = trainer.strategy == "megatron"
        yield Violation(
            f"ajet.trainer_common.{'megatron' if is_megatron else 'ulysses_sequence_parallel_size'}",
            f"{f'takes {shared} GPUs for one sample, which ' if is_megatron else ''}"
            f"does not divide nnodes x n_gpus_per_node (= {workers}).",
            f"Write {'sizes whose product is ' if is_megatron else ''}a divisor of {workers}.",
        )
    samples = ajet.data.train_batch_size * repeats
    if samples % trainer.mini_batch_num:
        yield Violation(
            "ajet.trainer_common.mini_batch_num",
            f"does not divide ajet.data.train_batch_size x ajet.rollout.num_repeat (= {samples}).",
            f"Write a divisor of {samples}.",
        )


def _shared_sequences(ajet: Ajet) -> Iterator[Violation]:
    """verl exchanges heads for tokens within flash attention alone: another attention would see, on each GPU,
    only that GPU's part of a sequence, and say nothing (`apply_monkey_patch` of verl 0.9.1)."""
    shared = ajet.trainer_common.ulysses_sequence_parallel_size
    if ajet.backbone == "verl" and shared > 1 and lacks_flash_attention(ajet):
        yield Violation(
            "ajet.trainer_common.ulysses_sequence_parallel_size",
            "is more than 1, but a sequence is shared within flash attention only, on GPUs in bf16.",
            "Write 1, or set ajet.trainer_common.model_dtype: bf16 and device: cuda.",
        )


def _turns(ajet: Ajet) -> Iterator[Violation]:
    """vLLM sleeps while the weights are trained: where it can, and where nobody asks it meanwhile."""
    rollout, common = ajet.rollout, ajet.trainer_common
    if not rollout.free_cache_engine or not rollout.asks_vllm:
        return
    if common.device == "cpu":
        yield Violation(
            "ajet.rollout.free_cache_engine",
            "is true, but on a CPU vLLM keeps its memory.",
            "Write false, or leave it out.",
        )
    elif common.one_step_off_policy:
        yield Violation(
            "ajet.rollout.free_cache_engine",
            "is true, but with one_step_off_policy vLLM samples while the weights are trained.",
            "Write false and lower rollout.gpu_memory_utilization, or leave one_step_off_policy out.",
        )


def _verls_servers(ajet: Ajet) -> Iterator[Violation]:
    rollout, common = ajet.rollout, ajet.trainer_common
    if rollout.inference != "verl" or ajet.backbone == "debug":  # which samples in its own process
        return
    if ajet.backbone != "verl":
        yield Violation(
            "ajet.rollout.inference",
            f"is verl, but backbone {ajet.backbone} does not start verl's servers.",
            "Write vllm or transformers, or set ajet.backbone: verl.",
        )
    workers, size = common.nnodes * common.n_gpus_per_node, rollout.tensor_model_parallel_size
    if workers % size:
        yield Violation(
            "ajet.rollout.tensor_model_parallel_size",
            f"does not divide nnodes x n_gpus_per_node (= {workers}), which verl's servers share.",
            f"Write a divisor of {workers}.",
        )
    if rollout.name != "vllm":
        yield Violation(
            "ajet.rollout.name",
            "is not vllm, whose names for sampling verl's servers are asked with.",
            "Leave it out.",
        )
    for name in ("vllm_python", "vllm_arguments"):
        if getattr(rollout, name):
            yield Violation(
                f"ajet.rollout.{name}",
                "is of a server that the trainer starts; verl's run in verl's environment.",
                "Leave it out; arguments can stand under verl.actor_rollout_ref.rollout.engine_kwargs.vllm.",
            )
    if ajet.lora.lora_rank and common.model_dtype == "fp32":
        yield Violation(
            "ajet.trainer_common.model_dtype",
            "is fp32, but verl rounds weights with an adapter to bfloat16 on their way to its servers.",
            "Write bf16, or set ajet.rollout.inference: vllm.",
        )


def _megatron(ajet: Ajet) -> Iterator[Violation]:
    common, prefix = ajet.trainer_common, "ajet.trainer_common"
    if ajet.backbone != "verl":
        return
    if common.strategy == "fsdp2":
        if any(size > 1 for _, size in common.megatron):
            yield Violation(
                f"{prefix}.megatron",
                "is set, but strategy is fsdp2.",
                "Set strategy: megatron, or leave it out.",
            )
        return
    if common.device == "cpu" or common.model_dtype == "fp32":
        yield Violation(
            f"{prefix}.strategy",
            "is megatron, which verl computes in bfloat16 on GPUs.",
            "Set model_dtype: bf16 and device: cuda, or write fsdp2.",
        )
    if ajet.lora.lora_rank:
        yield Violation(
            "ajet.lora.lora_rank",
            "is set, but with strategy: megatron all weights are trained.",
            "Write 0, or set ajet.trainer_common.strategy: fsdp2.",
        )
    if common.ulysses_sequence_parallel_size > 1:
        yield Violation(
            f"{prefix}.ulysses_sequence_parallel_size",
            "is more than 1, but with strategy: megatron sequences are shared otherwise.",
            "Set megatron.context_parallel_size instead.",
        )
