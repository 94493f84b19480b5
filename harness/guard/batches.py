"""The effective batch of a config that gives it as a product: batch per device × accumulation × devices.

In: the values that a foreign trainer gets before and after an edit. Out: a refusal, or None when every
product is what it was. Where the total batch stands in the config itself, that key is fixed; how it is cut up
is free.

A trainer ignores factors that it does not read. So a factor counts only where the author wrote it; the one
that may be added is accumulation, beside the batch per device, if the command starts a trainer that reads it.
"""

from collections.abc import Collection, Mapping
from fractions import Fraction

from harness.config import keys
from harness.config.keys import parameter
from harness.config.readings import Path, Value

_INFERENCE = frozenset(("rollout", "vllm", "sglang", "inference", "generation", "engine_kwargs"))
_VERL = frozenset(("actor_rollout_ref", "ppo_mini_batch_size"))

Tree = Mapping[Path, Value]


def is_judged(path: Path, is_ajet: bool) -> bool:
    """True if the key is a batch that is judged by the product of all factors."""
    about = keys.meaning(path, is_ajet).about
    return not is_ajet and _power(path) != 0 and about == keys.EFFECTIVE_BATCH


def refuse(before: Tree, after: Tree, following: Collection[Path], may_accumulate: bool) -> str | None:
    """Why the edit changes the effective batch, or None. `following`: keys that follow an edited one.
    `may_accumulate`: accumulation that is added is read."""
    differing = {
        path
        for path in {*before, *after}
        if _power(path) != 0 and (before.get(path) != after.get(path) or path in following)
    }
    if not differing:
        return None
    if _states_total(before):
        differing = {path for path in differing if not _cuts_up(path)}
        why = "the total batch stands in this config, so only micro-batches and devices may change"
        return _refusal(differing, why) if differing else None
    if counting := [path for path in before if parameter("counted_in_batches").is_at(path)]:
        return _refusal(differing, f"`{keys.last_name(counting[0])}` counts in these batches too")
    if not any(_power(path) > 0 for path in (*differing, *before)):
        return _refusal(differing, "whether each group of devices has a batch of its own cannot be told")
    moved = {path for path in differing if (path in before) != (path in after)}
    if unread := {path for path in moved if not (may_accumulate and _adds_steps(path, before, after))}:
        return _refusal(unread, "a factor of the batch is only given another value, where it stands")
    ratio = None if _is_ambiguous(differing, before) else _ratio(differing, before, after)
    if ratio is None:
        return _refusal(differing, "whether the effective batch stays the same cannot be told from this")
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


def _states_total(tree: Tree) -> bool:
    """True if a key of its own fixes the total batch: `global_…`, or verl's `data.train_batch_size`, which
    has a default. Not beside accumulation: which of the two is read cannot be told."""
    if any(_VERL & set(keys.named_segments(path)) for path in tree):
        return True
    wholes = [path for path, value in tree.items() if value.whole is not None]
    is_verl = any(keys.last_name(path) == "n_gpus_per_node" for path in tree)
    totals = [path for path in wholes if parameter("total_batch").is_at(path)]
    totals += [path for path in wholes if is_verl and path == ("data", "train_batch_size")]
    return bool(totals) and not any(parameter("accumulation").is_at(path) for path in wholes)


def _adds_steps(path: Path, before: Tree, after: Tree) -> bool:
    """True if accumulation comes in beside the batch per device, under the name that trainers read."""
    beside = (other for other in before if other[:-1] == path[:-1])
    is_beside_a_batch = any(parameter("per_device_batch").is_at(other) for other in beside)
    return path in after and path[-1] == "gradient_accumulation_steps" and is_beside_a_batch


def _is_ambiguous(differing: Collection[Path], before: Tree) -> bool:
    """True if it is open which of several keys counts, or whether a plain `batch_size` is one per device."""
    factors = [path for path in before if _power(path) != 0]
    names = [keys.last_name(path) for path in factors]
    plain = [path for path in factors if parameter("plain_batch").is_at(path)]
    batches = [path for path in before if parameter("per_device_batch").is_at(path)] + plain
    if len(batches) != 1 or any(names.count(keys.last_name(path)) > 1 for path in differing):
        return True
    others = (path for path in differing if path not in batches)
    return bool(plain) and any(not parameter("accumulation").is_at(path) for path in others)


def _ratio(differing: Collection[Path], before: Tree, after: Tree) -> Fraction | None:
    """The effective batch after, as a share of that before; None where a factor is no whole number."""
    ratio = Fraction(1)
    for path in differing:
        old = before[path].whole if path in before else 1
        new = after[path].whole
        if old is None or new is None:
            return None
        ratio *= Fraction(new, old) ** _power(path)
    return ratio


def _refusal(differing: Collection[Path], why: str) -> str:
    shown = ", ".join(f"`{'.'.join(path)}`" for path in sorted(differing))
    return (
        f"{shown}: {why}. The effective batch belongs to what is studied; halve the batch per device, double "
        "the accumulation steps, so that the product stays, save memory by offloading or checkpointing, or "
        "put the change to a person with ask_person"
    )
