"""The effective batch of a config that gives it as a product: batch per device × accumulation × devices.

In: the values of a foreign config before and after an edit. Out: a refusal, or None when every product is
what it was. Where a total batch stands in the config itself, that key is fixed, and how it is cut up is free.
"""

import re
from collections.abc import Mapping

from harness.agent.allowed.config_keys import named_segments
from harness.agent.allowed.effects import Path, Value

_PER_DEVICE = re.compile(
    r"per_(device|gpu)_train_batch_size|batch_size_per_(gpu|device)"
    r"|(device_)?(train_)?micro_?batch_size(_per_gpu)?|micro_train_batch_size"
)
_ACCUMULATION = re.compile(
    r"(grad|gradient)(_accum(ulation)?)?_(accum(ulation)?|steps)(_steps)?|accumulate_grad_batches"
)
_DEVICES = re.compile(
    r"(n|num)_gpus(_per_node)?|gpus_per_node|n_?nodes|num_nodes|num_machines|num_processes|world_size|devices|gpus"
    r"|data_parallel(_size)?|dp(_size)?"
)
_TOTAL = re.compile(r"(global_|total_)?(train_)?batch_size|global_train_batch_size|(ppo_)?mini_batch_size")
_AMBIGUOUS = re.compile(r"batch_size")
_GENERATION = re.compile(r"steps_per_generation|generation_batch_size")

_Factors = dict[Path, int | None]


def is_factor(path: Path) -> bool:
    """Whether the key may be one factor of the effective batch."""
    name = _name(path)
    return any(pattern.fullmatch(name) for pattern in (_PER_DEVICE, _ACCUMULATION, _DEVICES))


def refuse(before: Mapping[Path, Value], after: Mapping[Path, Value]) -> str | None:
    """Why the edit changes the effective batch, or None."""
    differing = {
        path for path in {*before, *after} if is_factor(path) and before.get(path) != after.get(path)
    }
    if not differing or _only_cuts_up_a_total(differing, before):
        return None
    if any(_GENERATION.fullmatch(_name(path)) for path in before):
        return _refusal(
            differing, "`steps_per_generation` or `generation_batch_size` counts in these batches too"
        )
    old, new = _product(before), _product(after)
    if old is None or new is None or _has_plain_batch(before):
        return _refusal(
            differing, "whether the effective batch stays the same cannot be told from this config"
        )
    return None if old == new else _refusal(differing, f"the effective batch would go from {old} to {new}")


def _only_cuts_up_a_total(differing: set[Path], before: Mapping[Path, Value]) -> bool:
    """Whether the total batch is fixed by a key of its own, and only micro-batches and devices change."""
    total = any(
        _TOTAL.fullmatch(_name(path)) and _name(path) != "batch_size" and _whole(value)
        for path, value in before.items()
    )
    cuts = all("micro" in _name(path) or _DEVICES.fullmatch(_name(path)) for path in differing)
    return cuts and (total or not _counts_per_device(before))


def _counts_per_device(tree: Mapping[Path, Value]) -> bool:
    return any(
        _PER_DEVICE.fullmatch(_name(path))
        or _ACCUMULATION.fullmatch(_name(path))
        or _has_plain_batch({path: value})
        for path, value in tree.items()
    )


def _has_plain_batch(tree: Mapping[Path, Value]) -> bool:
    return any(_AMBIGUOUS.fullmatch(_name(path)) for path in tree)


def _product(tree: Mapping[Path, Value]) -> int | None:
    """The product of all factors, None where one is no number, stands twice, or there is no batch."""
    named: dict[str, int] = {}
    for path, value in tree.items():
        if not is_factor(path):
            continue
        number = _whole(value)
        if number is None or _name(path) in named:
            return None
        named[_name(path)] = number
    if not any(_PER_DEVICE.fullmatch(name) for name in named):
        return None
    product = 1
    for number in named.values():
        product *= number
    return product


def _whole(value: Value) -> int | None:
    return int(value.text) if value.kind == "int" and re.fullmatch(r"[1-9]\d{0,8}", value.text) else None


def _name(path: Path) -> str:
    return (named_segments(path) or ("",))[-1]


def _refusal(differing: set[Path], why: str) -> str:
    keys = ", ".join(f"`{'.'.join(path)}`" for path in sorted(differing))
    return (
        f"{keys}: {why}. The effective batch belongs to what is studied; halve the batch per device, double "
        "the accumulation steps, so that the product stays, or save memory by offloading or checkpointing"
    )
