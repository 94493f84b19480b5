"""Smaller pieces of the same batch: the effective batch stays what it is."""

import math
import re

from harness.command import read_or_empty
from harness.config.keys import parameter
from harness.repair.remedies.settings import Setting
from harness.repair.remedies.sizes import whole
from harness.repair.remedies.types import Repair, Situation

_INFERENCE = frozenset(("rollout", "vllm", "sglang", "inference", "generation", "engine_kwargs"))
_TRAINING = frozenset(("actor", "critic", "ref", "train", "trainer", "training", "megatron", "fsdp_config"))


def halve_micro_batch(now: Situation) -> Repair | None:
    """Where the total batch stands in the config, only the pieces; else accumulation takes what they lose."""
    if now.settings.tree in ("ajet", "verl") or _states_total(now):
        return _halve_pieces(now)
    return _trade_for_accumulation(now)


def _states_total(now: Situation) -> bool:
    totals = now.settings.of("total_batch")
    is_product = any(each.whole is not None for each in now.settings.of("accumulation"))
    return not is_product and any(each.whole is not None for each in totals)


def _halve_pieces(now: Situation) -> Repair | None:
    edits = {}
    for setting in now.settings.of("micro_batch"):
        if (size := setting.whole) is not None and size > 1 and not _is_dynamic(now, setting):
            edits[setting.key] = _smaller(size)
    return Repair.of(edits)


def _is_dynamic(now: Situation, setting: Setting) -> bool:
    """True if the pieces are cut by tokens, so that their number of rows is not read."""
    above, _, name = setting.key.rpartition(".")
    prefix = "log_prob_" if name.startswith("log_prob_") else ""
    return now.settings.get(f"{above}.{prefix}use_dynamic_bsz") is True


def _smaller(size: int) -> int:
    """The largest proper divisor, so that the pieces still fill the batch."""
    factors = range(2, math.isqrt(size) + 1)
    return next((size // factor for factor in factors if size % factor == 0), 1)


def _trade_for_accumulation(now: Situation) -> Repair | None:
    batch = _the_only(now, "per_device_batch") or _the_only(now, "plain_batch")
    if batch is None or batch.whole is None or batch.whole <= 1:
        return None
    size = _smaller(batch.whole)
    steps = _the_only(now, "accumulation")
    if steps is not None:
        before = steps.whole
        key = steps.key
    elif batch.name == "per_device_train_batch_size" and read_or_empty(now.command).is_of_hf_trainer:
        before, key = 1, f"{batch.key.removesuffix(batch.name)}gradient_accumulation_steps"
    else:
        return None  # this trainer may not accumulate
    if before is None:
        return None
    return Repair(edits={batch.key: size, key: before * (batch.whole // size)})


def _the_only(now: Situation, name: str) -> Setting | None:
    found = now.settings.of(name)
    return found[0] if len(found) == 1 else None


def lower_tokens(now: Situation) -> Repair | None:
    """Half the tokens of a piece, never less than the longest sequence."""
    prompt, response = now.settings.longest("prompt_length"), now.settings.longest("response_length")
    if prompt is None or response is None:
        return None
    edits = {}
    for setting in now.settings.of("tokens_per_gpu"):
        if setting.whole is not None:
            tokens = max(setting.whole // 2, prompt + response)
            if tokens < setting.whole:
                edits[setting.key] = tokens
    return Repair.of(edits)


def smaller_tensor_parallel(now: Situation) -> Repair | None:
    """The largest number of GPUs below the present one that divides the heads and the GPUs of a machine. Only
    of an inference engine: of a training that is divided over fewer GPUs, more copies have a batch each.
    """
    heads, most, edits = whole(now.captured("heads")), whole(now.captured("total")), {}
    gpus = [each.whole for each in now.settings.of("gpus_per_node")]
    wholes = [heads, whole(now.captured("world_size")), *gpus]
    for setting in now.settings.of("engine_tensor_parallel"):
        if setting.whole is not None and setting.whole > 1 and _is_inference(setting):
            edits[setting.key] = _fitting(min(setting.whole - 1, most or setting.whole), wholes)
    return Repair.of(edits)


def _is_inference(setting: Setting) -> bool:
    below = bool(_INFERENCE & set(setting.above)) and not _TRAINING & set(setting.above)
    return below or setting.name.startswith(("vllm_", "sglang_", "rollout_"))


def _fitting(most: int, wholes: list[int | None]) -> int:
    """The largest number up to `most` that divides all of those that are known; of none, a power of two."""
    common = math.gcd(*(number for number in wholes if number))
    if common == 0:
        return 1 << (most.bit_length() - 1)
    return next(number for number in range(most, 0, -1) if common % number == 0)


def fit_engine_length(now: Situation) -> Repair | None:
    """Room for the longest prompt with the longest response: no less, and where the KV cache is short, no
    more."""
    prompt, response = now.settings.longest("prompt_length"), now.settings.longest("response_length")
    if prompt is None or response is None:
        return None
    most = whole(now.captured("limit"))
    edits = {}
    for setting in now.settings.of("engine_length"):
        is_short = setting.whole is not None and setting.whole < prompt + response
        is_spare = setting.whole is not None and setting.whole > prompt + response
        fits = most is None or prompt + response <= most
        if (is_short and fits) or (is_spare and now.diagnosis.family != "length_limit"):
            edits[setting.key] = prompt + response
    return Repair.of(edits)


def speaks_of_engine_length(now: Situation) -> bool:
    """True if it is the engine's length that is said to be wrong, not that of a prompt or of the data."""
    return bool(now.captured("max_model_len") or re.search(parameter("engine_length").names, now.said))
