"""Room on the GPU: the inference engine's share, what is kept in main memory, how memory is divided."""

import math
import re
from collections.abc import Callable

from harness.repair.remedies.situation import Edits, Repair, Situation
from harness.repair.remedies.sizes import gib

LEAST_SHARE = 0.2
MOST_SHARE = 0.92
STEP = 0.1
MARGIN = 0.02
MUCH_RESERVED_GIB = 1.0
_ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF"
_EXPANDABLE = "expandable_segments"


def lower_share(now: Situation) -> Edits:
    """The engine's share of GPU memory, lowered by what was missing, else by 0.1."""
    return _with_shares(now, lambda share: _lower(share, now))


def _lower(share: float, now: Situation) -> float | None:
    total, free, tried = (gib(now.captured(name)) for name in ("total", "free", "tried"))
    wanted = share - STEP
    if total and free is not None and now.captured("utilization"):  # the engine found too little at its start
        wanted = min(share, free / total) - MARGIN
    elif total and free is not None and tried is not None:
        wanted = share - max((tried - free) / total + MARGIN, STEP / 2)
    found = max(LEAST_SHARE, math.floor(wanted * 100 + 1e-6) / 100)
    return found if found < share else None


def raise_share(now: Situation) -> Edits:
    """The engine's share, raised by what its KV cache lacks, else by 0.1."""
    return _with_shares(now, lambda share: _raise(share, now))


def _raise(share: float, now: Situation) -> float | None:
    total, free, needed = (gib(now.captured(name)) for name in ("total", "free", "needed"))
    more = STEP
    if total and free is not None and needed is not None:
        more = (needed - free) / total + MARGIN
    found = min(MOST_SHARE, math.ceil((share + more) * 100 - 1e-6) / 100)
    return found if found > share else None


def _with_shares(now: Situation, change: Callable[[float], float | None]) -> Edits:
    shares = [(each.key, each.number or 0.0) for each in now.settings.of("engine_memory_share")]
    found = {key: change(share) for key, share in shares if 0 < share <= 1}
    return {key: share for key, share in found.items() if share is not None}


def is_fragmented(now: Situation) -> bool:
    """True if it was measured that what is reserved and not used would have held what was asked for. That
    every message of PyTorch recommends expandable segments says nothing."""
    reserved, tried = gib(now.captured("reserved")), gib(now.captured("tried"))
    return reserved is not None and tried is not None and reserved >= max(tried, MUCH_RESERVED_GIB)


def expandable_segments(now: Situation) -> Repair | None:
    """Only where memory is fragmented. An engine that sleeps manages memory by itself and does not work with
    it."""
    if not is_fragmented(now) or _engine_sleeps(now):
        return None
    before = now.environment.get(_ALLOCATOR, "")
    if f"{_EXPANDABLE}:True" in before or _is_of_cuda(before):
        return None
    return Repair(environment={_ALLOCATOR: _with_segments(before, "True")})


def drop_expandable_segments(now: Situation) -> Repair | None:
    """The allocator as it is by default."""
    before = now.environment.get(_ALLOCATOR, "")
    if f"{_EXPANDABLE}:False" in before or _is_of_cuda(before):
        return None
    return Repair(environment={_ALLOCATOR: _with_segments(before, "False")})


def _is_of_cuda(settings: str) -> bool:
    """True if CUDA's own allocator is in use, which has no segments and refuses the setting."""
    return "backend:cudaMallocAsync" in settings.replace(" ", "")


def _with_segments(before: str, word: str) -> str:
    others = [part for part in before.split(",") if part and not part.startswith(f"{_EXPANDABLE}:")]
    return ",".join([*others, f"{_EXPANDABLE}:{word}"])


def _engine_sleeps(now: Situation) -> bool:
    settings = now.settings
    if any(each.value is True for each in settings.of("engine_sleep")):
        return True
    if settings.tree == "verl":  # it lets the engine sleep unless it is told not to
        return settings.values.get("actor_rollout_ref.rollout.free_cache_engine") is not False
    return settings.backbone not in ("", "local")


def torch_compile_off(now: Situation) -> Repair | Edits | None:
    """The same computation without the compiler."""
    found: Edits = {each.key: False for each in now.settings.of("torch_compile") if each.value is True}
    return found or now.variable("TORCH_COMPILE_DISABLE", "1")


def without_flash_attention(now: Situation) -> Edits:
    """PyTorch's own attention, where the config asks for flash attention."""
    found = now.settings.of("attention_implementation")
    switches = now.settings.of("flash_attention")
    named: Edits = {each.key: "sdpa" for each in found if re.match("flash", str(each.value))}
    return named | {each.key: False for each in switches if each.value is True}
