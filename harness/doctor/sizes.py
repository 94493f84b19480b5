"""Sizes that have to fit each other: batches, groups, parallelism, lengths, and the model's own numbers."""

from collections.abc import Iterator

from harness.doctor.launch import PlannedLaunch
from harness.doctor.model_files import model_folder, read_json
from harness.doctor.types import Finding, fine, problem, warning

_ROLLOUT = "actor_rollout_ref.rollout"
_ACTOR = "actor_rollout_ref.actor"
_TP = (
    f"{_ROLLOUT}.tensor_model_parallel_size",
    "ajet.rollout.tensor_model_parallel_size",
    "tensor_parallel_size",
    "vllm_tensor_parallel_size",
)


def batches_divide(launch: PlannedLaunch) -> Iterator[Finding]:
    """Batches, micro-batches and groups divide as the framework insists."""
    if launch.is_bundled and not launch.uses_cluster:
        return  # the trainer's dry run knows its own rules
    found = [*_of_verl(launch), *_of_ajet(launch), *_of_trl(launch)]
    yield from found
    if not found and launch.settings.get("data.train_batch_size", "ajet.data.train_batch_size"):
        yield fine("batch sizes divide")


def _of_verl(launch: PlannedLaunch) -> Iterator[Finding]:
    """verl's own assertions: on prompts × repeats per GPU, and on micro-batches per mini-batch."""
    settings = launch.settings
    batch = settings.whole("data.train_batch_size")
    if not settings.has_tree("actor_rollout_ref") or batch is None:
        return
    if settings.get(f"{_ACTOR}.strategy") == "megatron":
        return  # its parallel sizes count otherwise
    dynamic = settings.get(f"{_ACTOR}.use_dynamic_bsz") is True
    repeats = settings.whole(f"{_ROLLOUT}.n") or 1
    world = (settings.whole("trainer.n_gpus_per_node") or 8) * (settings.whole("trainer.nnodes") or 1)
    parts = world // _sequence_parallel(launch)
    if parts and batch * repeats % parts:
        yield _indivisible(
            f"data.train_batch_size × {_ROLLOUT}.n", batch * repeats, "data-parallel GPUs", parts
        )
    mini = settings.whole(f"{_ACTOR}.ppo_mini_batch_size")
    if mini is None:
        return
    if mini > batch and not dynamic:
        yield problem(
            f"{_ACTOR}.ppo_mini_batch_size {mini} is larger than data.train_batch_size {batch}",
            "a mini-batch is a part of the batch: lower it",
            "batch_divisibility",
        )
    micro = settings.whole(f"{_ACTOR}.ppo_micro_batch_size_per_gpu")
    per_gpu = mini * repeats // parts if parts else 0
    if not per_gpu:
        yield problem(
            f"{_ACTOR}.ppo_mini_batch_size {mini} × {repeats} repeats leave nothing for each of {parts} GPUs",
            "use fewer GPUs, or have the experiment's author raise it",
            "batch_divisibility",
        )
    elif micro and not dynamic and per_gpu % micro:
        yield _indivisible(
            "the mini-batch of a GPU", per_gpu, f"{_ACTOR}.ppo_micro_batch_size_per_gpu", micro
        )


def _sequence_parallel(launch: PlannedLaunch) -> int:
    return (
        launch.settings.whole(
            f"{_ACTOR}.ulysses_sequence_parallel_size", "ajet.trainer_common.ulysses_sequence_parallel_size"
        )
        or 1
    )


def _of_ajet(launch: PlannedLaunch) -> Iterator[Finding]:
    settings = launch.settings
    batch, repeats = settings.whole("ajet.data.train_batch_size"), settings.whole("ajet.rollout.num_repeat")
    if batch is None or repeats is None or launch.settings.get("ajet.backbone") != "verl":
        return
    nodes = settings.whole("ajet.trainer_common.nnodes") or 1
    parts = (settings.whole("ajet.trainer_common.n_gpus_per_node") or 8) * nodes // _sequence_parallel(launch)
    if parts and batch * repeats < parts:
        yield _indivisible(
            "ajet.data.train_batch_size × num_repeat", batch * repeats, "data-parallel GPUs", parts
        )


def _of_trl(launch: PlannedLaunch) -> Iterator[Finding]:
    """TRL's GRPO: the generation batch is made of whole groups."""
    settings = launch.settings
    group, size = settings.whole("num_generations"), settings.whole("per_device_train_batch_size")
    if group is None or size is None or settings.get("generation_batch_size"):
        return
    workers = max(launch.workers, 1)
    steps = settings.whole("steps_per_generation", "gradient_accumulation_steps") or 1
    if group < 2:
        yield problem(
            "num_generations is 1: a group needs two answers to compare",
            "write 2 or more",
            "batch_divisibility",
        )
    elif launch.workers and workers * size * steps % group:
        yield _indivisible(
            "workers × per_device_train_batch_size × steps", workers * size * steps, "num_generations", group
        )


def _indivisible(what: str, value: int, by: str, divisor: int) -> Finding:
    below = max(divisor, value - value % divisor)
    return problem(
        f"{what} = {value} cannot be divided by {by} = {divisor}",
        f"choose numbers that divide (the nearest multiples of {divisor} are {below} and {below + divisor})",
        "batch_divisibility",
    )


def parallelism_fits(launch: PlannedLaunch) -> Iterator[Finding]:
    """Tensor parallelism divides the heads, and fits the GPUs that are asked for."""
    tp = launch.settings.whole(*_TP)
    if tp is None or (launch.is_bundled and not launch.uses_cluster):
        return
    found = []
    folder = model_folder(launch)
    heads = _number_in_config(launch, "num_attention_heads")
    if heads and heads % tp:
        fitting = [size for size in range(1, tp) if heads % size == 0]
        mend = f"choose a divisor of {heads}, such as {fitting[-1]}"
        text = f"tensor parallelism {tp} does not divide the {heads} attention heads of {folder}"
        found.append(problem(text, mend, "parallelism_config"))
    nodes = launch.settings.whole("trainer.nnodes", "ajet.trainer_common.nnodes") or 1
    world = launch.gpus_asked * nodes
    if world and (tp > world or world % tp):
        text = f"tensor parallelism {tp} does not fit the {world} GPU(s) asked for"
        found.append(problem(text, "choose a divisor of the number of GPUs", "parallelism_config"))
    yield from found
    if not found:
        yield fine(f"tensor parallelism {tp} fits")


def lengths_fit(launch: PlannedLaunch) -> Iterator[Finding]:
    """Prompt and response fit the engine's limit, and that fits the model's positions."""
    settings = launch.settings
    prompt = settings.whole("data.max_prompt_length", "ajet.data.max_prompt_length")
    response = settings.whole("data.max_response_length", "ajet.data.max_response_length")
    limit = settings.whole(f"{_ROLLOUT}.max_model_len", "ajet.rollout.max_model_len", "max_model_len")
    longest = (prompt or 0) + (response or 0)
    if limit and prompt and response and longest > limit and not launch.is_bundled:
        yield warning(
            f"max_prompt_length + max_response_length = {longest} is more than max_model_len = {limit}",
            f"raise max_model_len to {longest}, or leave it out",
            "length_limit",
        )
    positions = _number_in_config(launch, "max_position_embeddings")
    asked = limit or longest
    if positions and asked > positions and not _is_scaled(launch):
        yield warning(
            f"sequences of {asked} tokens are asked for, the model's config allows {positions}",
            "have the experiment's author choose lengths that the model has, or its long-context config",
            "length_limit",
        )
    tokens = settings.whole(f"{_ROLLOUT}.max_num_batched_tokens", "max_num_batched_tokens")
    if tokens and asked and tokens < asked and settings.get(f"{_ROLLOUT}.enable_chunked_prefill") is False:
        yield problem(
            f"max_num_batched_tokens {tokens} is less than the longest sequence, {asked}",
            f"raise it to {asked}, or switch chunked prefill on",
            "length_limit",
        )


def _number_in_config(launch: PlannedLaunch, name: str) -> int | None:
    folder = model_folder(launch)
    try:
        config = read_json(folder / "config.json") if folder else {}
    except ValueError:
        return None
    value = config.get(name) or (config.get("text_config") or {}).get(name)
    return value if isinstance(value, int) and value > 0 else None


def _is_scaled(launch: PlannedLaunch) -> bool:
    folder = model_folder(launch)
    return bool(folder and read_json(folder / "config.json").get("rope_scaling"))
