"""Sizes that have to fit each other: batches, groups, parallelism, lengths, and the model's own numbers."""

from collections.abc import Iterator

from harness.doctor.findings import Finding, fine, problem, warning
from harness.doctor.launch import PlannedLaunch, spellings
from harness.doctor.model_files import model_config

_ROLLOUT = "actor_rollout_ref.rollout"
_ACTOR = "actor_rollout_ref.actor"
_BATCH, _MINI = "data.train_batch_size", f"{_ACTOR}.ppo_mini_batch_size"
_MICRO = f"{_ACTOR}.ppo_micro_batch_size_per_gpu"


def batches_divide(launch: PlannedLaunch) -> Iterator[Finding]:
    """Batches, micro-batches and groups divide as the framework insists."""
    if launch.is_bundled and not launch.uses_cluster:
        return  # the trainer's dry run knows its own rules
    found = [*_of_verl(launch), *_of_trl(launch)]
    yield from found
    if not found and launch.settings.get(_BATCH):
        yield fine("batch sizes divide")


def _of_verl(launch: PlannedLaunch) -> Iterator[Finding]:
    """verl's own assertions: on prompts × repeats per GPU, and on micro-batches per mini-batch."""
    settings = launch.settings
    batch, mini, micro = (settings.whole(key) for key in (_BATCH, _MINI, _MICRO))
    is_megatron = settings.get(f"{_ACTOR}.strategy") == "megatron"  # its parallel sizes count otherwise
    if not settings.has_tree("actor_rollout_ref") or batch is None or is_megatron:
        return
    dynamic = settings.get(f"{_ACTOR}.use_dynamic_bsz") is True
    repeats = settings.whole(f"{_ROLLOUT}.n") or 1
    world = (settings.whole("trainer.n_gpus_per_node") or 8) * (settings.whole("trainer.nnodes") or 1)
    parts = world // (settings.whole(f"{_ACTOR}.ulysses_sequence_parallel_size") or 1) or 1
    if batch * repeats % parts:
        yield _indivisible(f"{_BATCH} × {_ROLLOUT}.n", batch * repeats, "data-parallel GPUs", parts)
    if mini is None:
        return
    if mini > batch and not dynamic:
        text = f"{_MINI} {mini} is larger than {_BATCH} {batch}"
        yield problem(text, "a mini-batch is a part of the batch: lower it", "batch_divisibility")
    per_gpu = mini * repeats // parts
    if not per_gpu:
        text = f"{_MINI} {mini} × {repeats} repeats leave nothing for each of {parts} GPUs"
        fix = "use fewer GPUs, or have the experiment's author raise it"
        yield problem(text, fix, "batch_divisibility")
    elif micro and not dynamic and per_gpu % micro:
        yield _indivisible("the mini-batch of a GPU", per_gpu, _MICRO, micro)


def _of_trl(launch: PlannedLaunch) -> Iterator[Finding]:
    """TRL's GRPO: the generation batch is made of whole groups."""
    settings = launch.settings
    group, size = settings.whole("num_generations"), settings.whole("per_device_train_batch_size")
    if group is None or size is None or settings.get("generation_batch_size"):
        return
    steps = settings.whole("steps_per_generation", "gradient_accumulation_steps") or 1
    batch = max(launch.workers, 1) * size * steps
    if group < 2:
        text = "num_generations is 1: a group needs two answers to compare"
        yield problem(text, "write 2 or more", "batch_divisibility")
    elif launch.workers and batch % group:
        what = "workers × per_device_train_batch_size × steps"
        yield _indivisible(what, batch, "num_generations", group)


def _indivisible(what: str, value: int, by: str, divisor: int) -> Finding:
    below = max(divisor, value - value % divisor)
    fix = f"choose numbers that divide (the nearest multiples of {divisor} are {below} and {below + divisor})"
    text = f"{what} = {value} cannot be divided by {by} = {divisor}"
    return problem(text, fix, "batch_divisibility")


def parallelism_fits(launch: PlannedLaunch) -> Iterator[Finding]:
    """Tensor parallelism divides the heads, and fits the GPUs that are asked for."""
    parallel = launch.settings.whole(*spellings("engine_tensor_parallel"), "tensor_parallel_size")
    if parallel is None or (launch.is_bundled and not launch.uses_cluster):
        return
    found = []
    heads = model_config(launch, "num_attention_heads")
    if isinstance(heads, int) and heads % parallel:
        fitting = max(size for size in range(1, parallel) if heads % size == 0)
        text = f"tensor parallelism {parallel} does not divide the model's {heads} attention heads"
        found.append(problem(text, f"choose a divisor of {heads}, such as {fitting}", "parallelism_config"))
    world = launch.gpus_asked * (launch.settings.whole(*spellings("nodes")) or 1)
    if world and world % parallel:
        text = f"tensor parallelism {parallel} does not fit the {world} GPU(s) asked for"
        found.append(problem(text, "choose a divisor of the number of GPUs", "parallelism_config"))
    yield from found or [fine(f"tensor parallelism {parallel} fits")]


def lengths_fit(launch: PlannedLaunch) -> Iterator[Finding]:
    """Prompt and response fit the engine's limit, and that fits the model's positions."""
    settings = launch.settings
    lengths = [settings.whole(*spellings(name)[:2]) or 0 for name in ("prompt_length", "response_length")]
    limit, longest = settings.whole(*spellings("engine_length")), sum(lengths)
    if limit and all(lengths) and longest > limit and not launch.is_bundled:
        text = f"max_prompt_length + max_response_length = {longest} is more than max_model_len = {limit}"
        yield warning(text, f"raise max_model_len to {longest}, or leave it out", "length_limit")
    positions, asked = model_config(launch, "max_position_embeddings"), limit or longest
    if isinstance(positions, int) and asked > positions and not model_config(launch, "rope_scaling"):
        text = f"sequences of {asked} tokens are asked for, the model's config allows {positions}"
        fix = "have the experiment's author choose lengths that the model has, or its long-context config"
        yield warning(text, fix, "length_limit")
    tokens = settings.whole(f"{_ROLLOUT}.max_num_batched_tokens", "max_num_batched_tokens")
    if tokens and tokens < asked and settings.get(f"{_ROLLOUT}.enable_chunked_prefill") is False:
        text = f"max_num_batched_tokens {tokens} is less than the longest sequence, {asked}"
        yield problem(text, f"raise it to {asked}, or switch chunked prefill on", "length_limit")
