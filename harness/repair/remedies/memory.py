"""Remedies, each by its name, that make room on the GPU: smaller pieces of the same batch, the inference
engine's share and length, how memory is divided. The effective batch stays what it is."""

import math

from harness.command import read_or_empty
from harness.repair.remedies.situation import Edits, Repair, Setting, Situation

LEAST_SHARE, MOST_SHARE = 0.2, 0.92
STEP, MARGIN = 0.1, 0.02
MUCH_RESERVED_GIB = 1.0
_ALLOCATOR, _EXPANDABLE = "PYTORCH_CUDA_ALLOC_CONF", "expandable_segments"
_INFERENCE = frozenset(("rollout", "vllm", "sglang", "inference", "generation", "engine_kwargs"))
_TRAINING = frozenset(("actor", "critic", "ref", "train", "trainer", "training", "megatron", "fsdp_config"))


def lower_gpu_memory_utilization(now: Situation) -> Edits:
    """The engine's share of GPU memory, lowered by what was missing, else by 0.1."""
    total, free, tried = (now.size(name) for name in ("total", "free", "tried"))
    found: Edits = {}
    for each in now.changeable("engine_memory_share"):
        share = each.number or 0.0
        wanted = share - STEP
        if total and free is not None and now.captured("utilization"):  # too little at the engine's start
            wanted = min(share, free / total) - MARGIN
        elif total and free is not None and tried is not None:
            wanted = share - max((tried - free) / total + MARGIN, STEP / 2)
        lower = max(LEAST_SHARE, math.floor(wanted * 100 + 1e-6) / 100)
        found |= {each.key: lower} if lower < share <= 1 else {}
    return found


def raise_gpu_memory_utilization(now: Situation) -> Edits:
    """The engine's share, raised by what its KV cache lacks, else by 0.1."""
    total, free, needed = (now.size(name) for name in ("total", "free", "needed"))
    is_measured = total and free is not None and needed is not None
    more = (needed - free) / total + MARGIN if is_measured else STEP  # type: ignore[operator]
    found: Edits = {}
    for each in now.changeable("engine_memory_share"):
        share = each.number or 0.0
        higher = min(MOST_SHARE, math.ceil((share + more) * 100 - 1e-6) / 100)
        found |= {each.key: higher} if 0 < share < higher else {}
    return found


def halve_micro_batch(now: Situation) -> Edits:
    """Where the total batch stands in the config, only the pieces; else accumulation takes what they lose."""
    totals, steps = (
        [each for each in now.settings.of(name) if each.whole is not None]
        for name in ("total_batch", "accumulation")
    )
    if now.settings.tree not in ("ajet", "verl") and (steps or not totals):
        return _trade_for_accumulation(now)
    sizes = [(each, each.whole or 0) for each in now.changeable("micro_batch")]
    return {each.key: _smaller(size) for each, size in sizes if size > 1 and not _is_dynamic(now, each)}


def _is_dynamic(now: Situation, setting: Setting) -> bool:
    """True if the pieces are cut by tokens, so that their number of rows is not read."""
    above, _, name = setting.key.rpartition(".")
    prefix = "log_prob_" if name.startswith("log_prob_") else ""
    return now.settings.values.get(f"{above}.{prefix}use_dynamic_bsz") is True


def _smaller(size: int) -> int:
    """The largest proper divisor, so that the pieces still fill the batch."""
    factors = range(2, math.isqrt(size) + 1)
    return next((size // factor for factor in factors if size % factor == 0), 1)


def _trade_for_accumulation(now: Situation) -> Edits:
    sizes, steps = now.settings.of("per_device_batch", "plain_batch"), now.settings.of("accumulation")
    must_stay = len(now.changeable("per_device_batch", "plain_batch", "accumulation")) < len(sizes + steps)
    if len(sizes) != 1 or (sizes[0].whole or 0) <= 1 or must_stay or now.settings.of("counted_in_batches"):
        return {}
    batch, size = sizes[0], sizes[0].whole or 0
    if len(steps) == 1:
        before, key = steps[0].whole, steps[0].key
    elif batch.name == "per_device_train_batch_size" and read_or_empty(now.command).is_of_hf_trainer:
        before, key = 1, f"{batch.key.removesuffix(batch.name)}gradient_accumulation_steps"
    else:
        return {}  # this trainer may not accumulate
    smaller = _smaller(size)
    return {batch.key: smaller, key: before * (size // smaller)} if before is not None else {}


def lower_tokens_per_gpu(now: Situation) -> Edits:
    """Half the tokens of a piece, never less than the longest sequence."""
    longest = _longest_sequence(now)
    sizes = [(each.key, each.whole or 0) for each in now.changeable("tokens_per_gpu")]
    return {key: max(size // 2, longest) for key, size in sizes if longest and longest < size}


def _longest_sequence(now: Situation) -> int | None:
    """The longest prompt with the longest response; None where one is not known."""
    prompt, response = now.settings.longest("prompt_length"), now.settings.longest("response_length")
    return None if prompt is None or response is None else prompt + response


def smaller_tensor_parallel(now: Situation) -> Edits:
    """The largest number of GPUs below the present one that divides the heads and the GPUs of a machine. Only
    of an inference engine: of a training that is divided over fewer GPUs, more copies have a batch each."""
    heads, most = now.count("heads"), now.count("total")
    gpus = [each.whole for each in now.settings.of("gpus_per_node")]
    common = math.gcd(*(number for number in (heads, now.count("world_size"), *gpus) if number))
    found: Edits = {}
    for each in now.changeable("engine_tensor_parallel"):
        size = each.whole or 0
        below = bool(_INFERENCE & set(each.above)) and not _TRAINING & set(each.above)
        if size > 1 and (below or each.name.startswith(("vllm_", "sglang_", "rollout_"))):
            largest = min(size - 1, most or size)
            divisors = (number for number in range(largest, 0, -1) if common % number == 0)
            found[each.key] = next(divisors) if common else 1 << (largest.bit_length() - 1)
    return found


def fit_max_model_len(now: Situation) -> Edits:
    """Room for the longest prompt with the longest response: no less, and where the KV cache is short, no
    more."""
    longest, most = _longest_sequence(now), now.count("limit")
    if longest is None:
        return {}
    may_grow, may_shrink = most is None or longest <= most, now.diagnosis.family != "length_limit"
    sizes = [(each.key, each.whole or longest) for each in now.changeable("engine_length")]
    return {
        key: longest
        for key, size in sizes
        if (size < longest and may_grow) or (size > longest and may_shrink)
    }


def is_fragmented(now: Situation) -> bool:
    """True if it was measured that what is reserved and not used would have held what was asked for. That
    every message of PyTorch recommends expandable segments says nothing."""
    reserved, tried = now.size("reserved"), now.size("tried")
    held, allocated = now.size("held"), now.size("allocated")  # as PyTorch said it before 2.0
    if reserved is None and held is not None and allocated is not None:
        reserved = held - allocated
    return reserved is not None and tried is not None and reserved >= max(tried, MUCH_RESERVED_GIB)


def expandable_segments(now: Situation) -> Repair | None:
    """Only where memory is fragmented. An engine that sleeps manages memory by itself and does not work with
    it."""
    return _with_segments(now, "True") if is_fragmented(now) and not _engine_sleeps(now) else None


def drop_expandable_segments(now: Situation) -> Repair | None:
    """The allocator as it is by default."""
    return _with_segments(now, "False")


def _with_segments(now: Situation, word: str) -> Repair | None:
    """None for CUDA's own allocator, which has no segments and refuses the setting."""
    before = now.environment.get(_ALLOCATOR, "")
    others = [part for part in before.split(",") if part and not part.startswith(f"{_EXPANDABLE}:")]
    if "backend:cudaMallocAsync" in before.replace(" ", ""):
        return None
    return now.variables({_ALLOCATOR: ",".join([*others, f"{_EXPANDABLE}:{word}"])})


def _engine_sleeps(now: Situation) -> bool:
    settings = now.settings
    if any(each.value is True for each in settings.of("engine_sleep")):
        return True
    if settings.tree == "verl":  # it lets the engine sleep unless it is told not to
        return settings.values.get("actor_rollout_ref.rollout.free_cache_engine") is not False
    return settings.backbone not in ("", "local")


def torch_compile_off(now: Situation) -> Repair | Edits | None:
    """The same computation without the compiler."""
    found: Edits = {each.key: False for each in now.changeable("torch_compile") if each.value is True}
    return found or now.variables({"TORCH_COMPILE_DISABLE": "1"})


def without_flash_attention(now: Situation) -> Edits:
    """PyTorch's own attention, where the config asks for flash attention."""
    named, switches = now.changeable("attention_implementation"), now.changeable("flash_attention")
    found: Edits = {each.key: "sdpa" for each in named if str(each.value).startswith("flash")}
    return found | {each.key: False for each in switches if each.value is True}
