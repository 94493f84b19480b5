"""What a run gets of the machine, and how many run at once, where the spec leaves it open.

In: the spec, and what the blueprint has now for a key. Out: GPUs, slots, `Needs`.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from harness.config.training import TRAINER_COMMON
from harness.sweep.spec_parts import memory_bytes
from harness.sweep.spec_schema import SweepSpec
from harness.sweep.types import Needs, SweepError

_DEFAULT_GPUS = 8
"""What the bundled trainer's schema has for `n_gpus_per_node`."""

Now = Callable[[str], object]


def slots(spec: SweepSpec, is_ajet: bool, now: Now, count: Callable[[], int]) -> tuple[int, int]:
    """GPUs of one run, and runs at once."""
    gpus = spec.each.gpus
    if gpus is None:
        asked = gpus_of_config(spec, now) if is_ajet else None
        gpus = asked if asked is not None else min(1, count())
    if spec.parallel is not None or gpus == 0:
        return gpus, spec.parallel or 1
    return gpus, max(1, count() // gpus)


def gpus_of_config(spec: SweepSpec, now: Now) -> int | None:
    """The most that the bundled trainer's config asks for at any point; None where that is this one machine's
    CPU, or not said."""
    backbones = everywhere(spec, now, "ajet.backbone")
    if not any(backbone in ("verl", "trinity") for backbone in backbones):
        return None
    counts = [
        value for value in everywhere(spec, now, f"{TRAINER_COMMON}.n_gpus_per_node") if type(value) is int
    ]
    return max(counts, default=_DEFAULT_GPUS)


def everywhere(spec: SweepSpec, now: Now, key: str) -> list[object]:
    """All values that a key has at some point."""
    if key in spec.vary:
        return list(spec.vary[key].values)
    return [spec.set.get(key, now(key))]


def of_run(spec: SweepSpec, gpus: int) -> Needs:
    """What the machine must set aside for each run."""
    each = spec.each
    memory = memory_bytes(each.memory) if each.memory is not None else None
    return Needs(gpus, each.cpus, memory, tuple(each.ports), each.share_gpus)


def gpus_here() -> int:
    """The number of GPUs that a process started here may use. Raises SweepError where nvidia-smi fails."""
    from harness.sweep.hosts import HostError, NeverFitsError
    from harness.sweep.hosts.devices import visible_devices

    try:
        return len(visible_devices(os.environ))
    except NeverFitsError:
        return 0
    except HostError as error:
        raise SweepError(f"{error}; `gpus: 0` under `each` makes a sweep without GPUs") from error
