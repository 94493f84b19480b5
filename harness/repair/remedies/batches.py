"""Smaller pieces of the same batch: the effective batch stays what it is."""

import math
import re

from harness.command import read_or_empty
from harness.config.keys import parameter
from harness.repair.remedies.settings import Setting
from harness.repair.remedies.situation import Edits, Situation
from harness.repair.remedies.sizes import whole

_INFERENCE = frozenset(("rollout", "vllm", "sglang", "inference", "generation", "engine_kwargs"))
_TRAINING = frozenset(("actor", "critic", "ref", "train", "trainer", "training", "megatron", "fsdp_config"))


def halve_micro_batch(now: Situation) -> Edits:
    """Where the total batch stands in the config, only the pieces; else accumulation takes what they lose."""
    totals, steps = (
        [each for each in now.settings.of(name) if each.whole is not None]
        for name in ("total_batch", "accumulation")
    )
    if now.settings.tree not in ("ajet", "verl") and (steps or not totals):
        return _trade_for_accumulation(now)
    sizes = [(each, each.whole or 0) for each in now.settings.of("micro_batch")]
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
    batch = _the_only(now, "per_device_batch") or _the_only(now, "plain_batch")
    if batch is None or batch.whole is None or batch.whole <= 1:
        return {}
    size = _smaller(batch.whole)
    steps = _the_only(now, "accumulation")
    if steps is not None:
        before = steps.whole
        key = steps.key
    elif batch.name == "per_device_train_batch_size" and read_or_empty(now.command).is_of_hf_trainer:
        before, key = 1, f"{batch.key.removesuffix(batch.name)}gradient_accumulation_steps"
    else:
        return {}  # this trainer may not accumulate
    if before is None:
        return {}
    return {batch.key: size, key: before * (batch.whole // size)}


def _the_only(now: Situation, name: str) -> Setting | None:
    found = now.settings.of(name)
    return found[0] if len(found) == 1 else None


def lower_tokens(now: Situation) -> Edits:
    """Half the tokens of a piece, never less than the longest sequence."""
    longest = _longest_sequence(now)
    sizes = [(each.key, each.whole or 0) for each in now.settings.of("tokens_per_gpu")]
    return {key: max(size // 2, longest) for key, size in sizes if longest and longest < size}


def _longest_sequence(now: Situation) -> int | None:
    """The longest prompt with the longest response; None where one is not known."""
    prompt, response = now.settings.longest("prompt_length"), now.settings.longest("response_length")
    return None if prompt is None or response is None else prompt + response


def smaller_tensor_parallel(now: Situation) -> Edits:
    """The largest number of GPUs below the present one that divides the heads and the GPUs of a machine. Only
    of an inference engine: of a training that is divided over fewer GPUs, more copies have a batch each.
    """
    heads, most = whole(now.captured("heads")), whole(now.captured("total"))
    gpus = [each.whole for each in now.settings.of("gpus_per_node")]
    wholes = [heads, whole(now.captured("world_size")), *gpus]
    sizes = [(each, each.whole or 0) for each in now.settings.of("engine_tensor_parallel")]
    return {
        each.key: _fitting(min(size - 1, most or size), wholes)
        for each, size in sizes
        if size > 1 and _is_inference(each)
    }


def _is_inference(setting: Setting) -> bool:
    below = bool(_INFERENCE & set(setting.above)) and not _TRAINING & set(setting.above)
    return below or setting.name.startswith(("vllm_", "sglang_", "rollout_"))


def _fitting(most: int, wholes: list[int | None]) -> int:
    """The largest number up to `most` that divides all of those that are known; of none, a power of two."""
    common = math.gcd(*(number for number in wholes if number))
    if common == 0:
        return 1 << (most.bit_length() - 1)
    return next(number for number in range(most, 0, -1) if common % number == 0)


def fit_engine_length(now: Situation) -> Edits:
    """Room for the longest prompt with the longest response: no less, and where the KV cache is short, no
    more."""
    longest, most = _longest_sequence(now), whole(now.captured("limit"))
    if longest is None:
        return {}
    may_grow, may_shrink = most is None or longest <= most, now.diagnosis.family != "length_limit"
    sizes = [(each.key, each.whole or longest) for each in now.settings.of("engine_length")]
    return {
        key: longest
        for key, size in sizes
        if (size < longest and may_grow) or (size > longest and may_shrink)
    }


def speaks_of_engine_length(now: Situation) -> bool:
    """True if it is the engine's length that is said to be wrong, not that of a prompt or of the data."""
    return bool(now.captured("max_model_len") or re.search(parameter("engine_length").names, now.said))
