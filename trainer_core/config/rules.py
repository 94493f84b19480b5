"""Rules that tie several keys together. In: the validated `ajet` section. Out: what is broken, by key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from trainer_core.config.verl import lacks_flash_attention

if TYPE_CHECKING:
    from trainer_core.config.schema import Ajet


_LONGEST_NAME = 255
_Rules = Iterator[tuple[Any, str, str, str]]
"""Whether it is broken, the key to blame (below `ajet`), what is wrong with it, and what to do."""


class Violation(NamedTuple):
    """One broken rule: the key to blame, what is wrong with it, and what to do."""

    key: str
    message: str
    fix: str


def violations(ajet: Ajet) -> tuple[Violation, ...]:
    """Every broken rule, in the order of the config."""
    rules = (
        *_names(ajet),
        *_tiny_model(ajet),
        *_lengths(ajet),
        *_tasks(ajet),
        *_companions(ajet),
        *_correction(ajet),
        *_batches(ajet),
        *_swarm(ajet),
        *_shared_sequences(ajet),
        *_turns(ajet),
        *_verls_servers(ajet),
        *_megatron(ajet),
    )
    return tuple(Violation(f"ajet.{key}", message, fix) for broken, key, message, fix in rules if broken)


def _names(ajet: Ajet) -> _Rules:
    name = ajet.experiment_name
    yield ("/" in name or "\0" in name or name in (".", ".."), "experiment_name",
           "cannot be used as a folder's name.",
           "Leave out `/`; the place of the output is `ajet.experiment_dir`.")  # fmt: skip
    yield (len(name.encode()) > _LONGEST_NAME, "experiment_name",
           f"is longer than the {_LONGEST_NAME} bytes of a folder's name.", "Shorten it.")  # fmt: skip


def _tiny_model(ajet: Ajet) -> _Rules:
    if ajet.model.path != "tiny":
        return
    tiny = ajet.model.tiny
    heads, key_value_heads = tiny.num_attention_heads, tiny.num_key_value_heads or tiny.num_attention_heads
    nearest = 2 * heads * max(1, tiny.hidden_size // (2 * heads))
    yield (tiny.hidden_size % (2 * heads), "model.tiny.hidden_size",
           f"must be a multiple of 2 x num_attention_heads (= {2 * heads}), for rotary positions.",
           f"Write a multiple of {2 * heads}, such as {nearest}.")  # fmt: skip
    yield (heads % key_value_heads, "model.tiny.num_key_value_heads",
           f"must divide num_attention_heads (= {heads}).", "Leave it out, or write a divisor.")  # fmt: skip


def _lengths(ajet: Ajet) -> _Rules:
    data, rollout = ajet.data, ajet.rollout
    longest = data.max_prompt_length + data.max_response_length
    yield (longest > rollout.max_model_len, "rollout.max_model_len",
           f"is less than ajet.data.max_prompt_length + ajet.data.max_response_length (= {longest}).",
           f"Raise it to {longest} or leave it out, or lower one of the two.")  # fmt: skip
    yield (rollout.max_response_length_in_one_turn > data.max_response_length,
           "rollout.max_response_length_in_one_turn",
           f"is more than ajet.data.max_response_length (= {data.max_response_length}).",
           f"Lower it to {data.max_response_length} or leave it out.")  # fmt: skip
    yield (0 < rollout.val_kwargs.temperature < 0.001, "rollout.val_kwargs.temperature",
           "is between 0 and 0.001, where logits overflow.", "Write 0 for the likeliest token.")  # fmt: skip
    yield (rollout.gamma != 1.0, "rollout.gamma", "has one legal value, 1.0.",
           "Write 1.0 or leave it out.")  # fmt: skip


def _swarm(ajet: Ajet) -> _Rules:
    if not ajet.enable_swarm_mode:
        return
    common, clients = ajet.trainer_common, "cannot be used where clients run the episodes."
    yield ajet.backbone not in ("local", "verl"), "backbone", clients, "Write local or verl."
    yield common.one_step_off_policy, "trainer_common.one_step_off_policy", clients, "Leave it out."
    yield common.mini_batch_of == "group", "trainer_common.mini_batch_of", clients, "Write sequence."
    is_remax = common.algorithm.adv_estimator == "remax"
    yield is_remax, "trainer_common.algorithm.adv_estimator", clients, "Write grpo."


def _tasks(ajet: Ajet) -> _Rules:
    reader, trainer, key = ajet.task_reader, ajet.trainer_common, "task_reader.jsonl_dataset_file"
    if reader.type != "jsonl_dataset_file" or ajet.enable_swarm_mode:
        return
    files = reader.jsonl_dataset_file
    validates = trainer.val_only or trainer.val_before_train or trainer.test_freq > 0
    yield (files.training.file_path is None and not trainer.val_only, f"{key}.training.file_path",
           "has to name the file of training questions when ajet.task_reader.type is jsonl_dataset_file.",
           "Write its path, seen from the working directory.")  # fmt: skip
    yield (files.validation.file_path is None and validates, f"{key}.validation.file_path",
           "has to name the file of validation questions, because validation is on.",
           "Write its path, or set ajet.trainer_common.test_freq: -1 and val_before_train: false.",
           )  # fmt: skip


def _companions(ajet: Ajet) -> _Rules:
    for number, program in enumerate(ajet.companions):
        yield (program.ready_pattern is None and program.health_url is None, f"companions[{number}]",
               "does not say how it is seen that it is ready.",
               "Add a ready_pattern that it prints, or a health_url that answers then.")  # fmt: skip


def _correction(ajet: Ajet) -> _Rules:
    common, prefix = ajet.trainer_common, "trainer_common.algorithm"
    algorithm, trusts = common.algorithm, common.old_logprobs == "rollout"
    is_cut = ajet.rollout.asks_vllm and (ajet.rollout.top_p < 1.0 or ajet.rollout.top_k > 0)
    yield (is_cut and trusts, "trainer_common.old_logprobs",
           "is rollout, but what vLLM tells is the probability after top_p and top_k have cut.",
           "Write recompute, or leave rollout.top_p and top_k out.")  # fmt: skip
    for name in ("rollout_is", "rollout_rs"):
        yield (getattr(algorithm, name) is not None and trusts, f"{prefix}.{name}",
               "compares with the trainer's own log-probabilities, which old_logprobs: rollout leaves out.",
               "Set ajet.trainer_common.old_logprobs: recompute.")  # fmt: skip
        lower, upper = (getattr(algorithm, f"{name}_threshold{end}") for end in ("_lower", ""))
        yield (lower is not None and upper is not None and lower >= upper, f"{prefix}.{name}_threshold_lower",
               f"must be less than {name}_threshold (= {upper}).", "Lower it or leave it out.")  # fmt: skip
    yield (algorithm.rollout_rs is not None and algorithm.rollout_rs_threshold is None,
           f"{prefix}.rollout_rs_threshold", f"has to be set with rollout_rs: {algorithm.rollout_rs}.",
           "Write a ratio above 1 for k1, such as 2.0 per token, or a distance in nats for k2 and k3.",
           )  # fmt: skip
    k1 = (algorithm.rollout_rs or "").endswith("k1")
    yield (k1 and algorithm.rollout_rs_threshold_lower is None and (algorithm.rollout_rs_threshold or 2) <= 1,
           f"{prefix}.rollout_rs_threshold",
           "is the largest ratio that stays, and 1 divided by it the smallest, so it must be above 1.",
           "Write a ratio above 1, or set rollout_rs_threshold_lower too.")  # fmt: skip


def _batches(ajet: Ajet) -> _Rules:
    trainer = ajet.trainer_common
    yield (trainer.one_step_off_policy and trainer.algorithm.rollout_is is None,
           "trainer_common.one_step_off_policy",
           "trains on answers of older weights, which has to be corrected.",
           "Set ajet.trainer_common.algorithm.rollout_is: token, and old_logprobs: recompute.")  # fmt: skip
    workers, shared = trainer.nnodes * trainer.n_gpus_per_node, trainer.model_parallel_size
    name = "megatron" if trainer.strategy == "megatron" else "ulysses_sequence_parallel_size"
    yield (workers % shared, f"trainer_common.{name}",
           f"has {shared} GPUs share samples, which does not divide nnodes x n_gpus_per_node (= {workers}).",
           f"Let that number be a divisor of {workers}.")  # fmt: skip
    samples = ajet.data.train_batch_size * ajet.rollout.num_repeat
    yield (samples % trainer.mini_batch_num, "trainer_common.mini_batch_num",
           f"does not divide ajet.data.train_batch_size x ajet.rollout.num_repeat (= {samples}).",
           f"Write a divisor of {samples}.")  # fmt: skip


def _shared_sequences(ajet: Ajet) -> _Rules:
    """verl exchanges heads for tokens within flash attention alone: another attention would see, on each GPU,
    only that GPU's part of a sequence, and say nothing (`apply_monkey_patch` of verl 0.9.1)."""
    shared = ajet.trainer_common.ulysses_sequence_parallel_size
    yield (ajet.backbone == "verl" and shared > 1 and lacks_flash_attention(ajet),
           "trainer_common.ulysses_sequence_parallel_size",
           "is more than 1, but a sequence is shared within flash attention only, on GPUs in bf16.",
           "Write 1, or set ajet.trainer_common.model_dtype: bf16 and device: cuda.")  # fmt: skip


def _turns(ajet: Ajet) -> _Rules:
    """vLLM sleeps while the weights are trained: where it can, and where nobody asks it meanwhile."""
    rollout, common, key = ajet.rollout, ajet.trainer_common, "rollout.free_cache_engine"
    sleeps = rollout.asks_vllm and rollout.free_cache_engine
    yield (sleeps and common.device == "cpu", key, "is true, but on a CPU vLLM keeps its memory.",
           "Write false, or leave it out.")  # fmt: skip
    yield (sleeps and common.one_step_off_policy, key,
           "is true, but with one_step_off_policy vLLM samples while the weights are trained.",
           "Write false and lower rollout.gpu_memory_utilization, or leave one_step_off_policy out.",
           )  # fmt: skip


def _verls_servers(ajet: Ajet) -> _Rules:
    rollout, common = ajet.rollout, ajet.trainer_common
    if rollout.inference != "verl" or ajet.backbone == "debug":  # which samples in its own process
        return
    workers, started = (
        common.nnodes * common.n_gpus_per_node,
        "is of a server that the trainer starts itself.",
    )
    yield (ajet.backbone != "verl", "rollout.inference", "is verl, whose servers only backbone verl starts.",
           "Write vllm or transformers, or set ajet.backbone: verl.")  # fmt: skip
    yield (workers % rollout.tensor_model_parallel_size, "rollout.tensor_model_parallel_size",
           f"does not divide nnodes x n_gpus_per_node (= {workers}), which verl's servers share.",
           f"Write a divisor of {workers}.")  # fmt: skip
    yield (rollout.name != "vllm", "rollout.name", "is not what verl's servers are asked for.",
           "Leave it out.")  # fmt: skip
    yield (rollout.vllm_python, "rollout.vllm_python", started,
           "Leave it out: verl's servers run in verl's environment.")  # fmt: skip
    yield (rollout.vllm_arguments, "rollout.vllm_arguments", started,
           "Leave it out, and set verl.actor_rollout_ref.rollout.engine_kwargs.vllm.")  # fmt: skip
    yield (ajet.lora.lora_rank and common.model_dtype == "fp32", "trainer_common.model_dtype",
           "is fp32, but verl rounds weights with an adapter to bfloat16 on their way to its servers.",
           "Write bf16, or set ajet.rollout.inference: vllm.")  # fmt: skip


def _megatron(ajet: Ajet) -> _Rules:
    common, is_megatron = ajet.trainer_common, ajet.trainer_common.strategy == "megatron"
    if ajet.backbone != "verl":
        return
    yield (not is_megatron and any(size > 1 for _, size in common.megatron), "trainer_common.megatron",
           "is set, but strategy is fsdp2.", "Set strategy: megatron, or leave it out.")  # fmt: skip
    on_gpus = common.device == "cuda" and common.model_dtype == "bf16"
    yield (is_megatron and not on_gpus, "trainer_common.strategy",
           "is megatron, which verl computes in bfloat16 on GPUs.",
           "Set model_dtype: bf16 and device: cuda, or write fsdp2.")  # fmt: skip
    yield (is_megatron and ajet.lora.lora_rank, "lora.lora_rank",
           "is set, but with strategy: megatron all weights are trained.",
           "Write 0, or set ajet.trainer_common.strategy: fsdp2.")  # fmt: skip
    yield (is_megatron and common.ulysses_sequence_parallel_size > 1,
           "trainer_common.ulysses_sequence_parallel_size", "is of fsdp2, but strategy is megatron.",
           "Set megatron.context_parallel_size instead.")  # fmt: skip
