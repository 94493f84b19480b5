"""The effective batch of a config that gives it as a product: batch per device × accumulation × devices.

In: the values of a foreign config before and after an edit. Out: a refusal, or None when every product is
what it was. Where the total batch stands in the config itself, that key is fixed; how it is cut up is free.

A trainer ignores factors that it does not read. So a factor counts only where the author wrote it; the one
that may be added is accumulation, beside the batch per device, if the command starts a trainer that reads it.
"""

import re
from collections.abc import Collection, Mapping
from fractions import Fraction

from harness.command import read_or_empty
from harness.config import keys
from harness.config.keys import parameter
from harness.config.readings import Path, Value

_INFERENCE = frozenset(("rollout", "vllm", "sglang", "inference", "generation", "engine_kwargs"))
_VERL = frozenset(("actor_rollout_ref", "ppo_mini_batch_size"))
_BATCH = ("per_device_batch", "plain_batch", "accumulation")
"""Factors that are a batch or its accumulation, not a number of devices."""


def is_factor(path: Path) -> bool:
    """True if the key may be one factor of the effective batch."""
    return _power(path) != 0


def refuse(
    before: Mapping[Path, Value],
    after: Mapping[Path, Value],
    following: Collection[Path] = (),
    command: str = "",
) -> str | None:
    """Why the edit changes the effective batch, or None. `following`: keys that follow an edited one.
    `command`: what reads the config; settings of its own hold against those there."""
    differing = {
        path
        for path in {*before, *after}
        if is_factor(path) and (before.get(path) != after.get(path) or path in following)
    }
    if not differing:
        return None
    if _states_total(before):
        differing = {path for path in differing if not _cuts_up(path)}
        why = "the total batch stands in this config, so only micro-batches and devices may change"
        return _refusal(differing, why) if differing else None
    given = [tuple(name.split(".")) for name in read_or_empty(command).plain]
    if counting := [path for path in (*before, *given) if parameter("counted_in_batches").is_at(path)]:
        return _refusal(differing, f"`{keys.last_name(counting[0])}` counts in these batches too")
    if any(parameter(name).is_at(path) for path in given for name in _BATCH if is_factor(path)):
        return _refusal(differing, "the launch command gives a factor of the effective batch itself")
    if not any(_power(path) > 0 for path in (*differing, *before)):
        return _refusal(differing, "whether each group of devices has a batch of its own cannot be told")
    is_read = read_or_empty(command).is_of_hf_trainer
    moved = {path for path in differing if (path in before) != (path in after)}
    if unread := {path for path in moved if not (is_read and _is_added_accumulation(path, before, after))}:
        why = "a factor of the effective batch is only given another value, where it stands"
        return _refusal(unread, why)
    ratio = None if _is_ambiguous(differing, before) else _ratio(differing, before, after)
    if ratio is None:
        why = "whether the effective batch stays the same cannot be told from this config"
        return _refusal(differing, why)
    return None if ratio == 1 else _refusal(differing, f"the effective batch would be {ratio} of what it was")


def _power(path: Path) -> int:
    """1 for a factor, -1 for one that divides (devices that work on the same batch), 0 for any other key."""
    if any(parameter(name).is_at(path) for name in ("per_device_batch", "accumulation", "devices")):
        return 1
    if parameter("plain_batch").is_at(path):
        return int(keys.meaning(path, is_ajet=False).about == keys.EFFECTIVE_BATCH)
    inference = _INFERENCE & set(keys.named_segments(path))
    return -1 if parameter("model_parallel").is_at(path) and not inference else 0


def _cuts_up(path: Path) -> bool:
    """True if the key only says how a total batch is cut up."""
    is_devices = parameter("devices").is_at(path) or parameter("model_parallel").is_at(path)
    return "micro" in keys.last_name(path) or is_devices


def _states_total(tree: Mapping[Path, Value]) -> bool:
    """True if a key of its own fixes the total batch: `global_…`, or verl's `data.train_batch_size`, which
    has a default."""
    if any(_VERL & set(keys.named_segments(path)) for path in tree):
        return True
    accumulated = [value for path, value in tree.items() if parameter("accumulation").is_at(path)]
    if any(_whole(value) is not None for value in accumulated):
        return False  # which of the two is read cannot be told: the product must stay
    is_verl = any(keys.last_name(path) == "n_gpus_per_node" for path in tree)
    return any(
        _whole(value) is not None
        and (parameter("total_batch").is_at(path) or (is_verl and path == ("data", "train_batch_size")))
        for path, value in tree.items()
    )


def _is_added_accumulation(path: Path, before: Mapping[Path, Value], after: Mapping[Path, Value]) -> bool:
    """True if accumulation comes in beside the batch per device, under the name that trainers read."""
    beside = (other for other in before if other[:-1] == path[:-1])
    is_beside_a_batch = any(parameter("per_device_batch").is_at(other) for other in beside)
    return path in after and path[-1] == "gradient_accumulation_steps" and is_beside_a_batch


def _is_ambiguous(differing: Collection[Path], before: Mapping[Path, Value]) -> bool:
    """True if it is open which of several keys counts, or whether a plain `batch_size` is one per device."""
    names = [keys.last_name(path) for path in before if is_factor(path)]
    plain = [path for path in before if is_factor(path) and parameter("plain_batch").is_at(path)]
    batches = [path for path in before if parameter("per_device_batch").is_at(path)] + plain
    if len(batches) != 1 or any(names.count(keys.last_name(path)) > 1 for path in differing):
        return True
    others = (path for path in differing if path not in batches)
    return bool(plain) and any(not parameter("accumulation").is_at(path) for path in others)


def _ratio(
    differing: Collection[Path], before: Mapping[Path, Value], after: Mapping[Path, Value]
) -> Fraction | None:
    """The effective batch after, as a share of that before; None where a factor is no whole number."""
    ratio = Fraction(1)
    for path in differing:
        old = _whole(before[path]) if path in before else 1
        new = _whole(after[path])
        if old is None or new is None:
            return None
        ratio *= Fraction(new, old) ** _power(path)
    return ratio


def _whole(value: Value) -> int | None:
    return int(value.text) if value.kind == "int" and re.fullmatch(r"[1-9]\d{0,8}", value.text) else None


def _refusal(differing: Collection[Path], why: str) -> str:
    keys = ", ".join(f"`{'.'.join(path)}`" for path in sorted(differing))
    return (
        f"{keys}: {why}. The effective batch belongs to what is studied; halve the batch per device, double "
        "the accumulation steps, so that the product stays, or save memory by offloading or checkpointing"
    )
