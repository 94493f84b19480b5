"""What a sweep does where its spec is silent: seeds, metric, GPUs and runs at once, the canary.

In: the spec, and what the blueprint has now for a key. Out: values for the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.config.edit import Scalar
from harness.config.training import TRAINER_COMMON
from harness.sweep.hosts import Needs
from harness.sweep.plan import SweepError
from harness.sweep.spec import SweepSpec, memory_bytes
from harness.sweep.values import UNSET

Now = Callable[[str], object]
"""The value that the blueprint has for a key, `UNSET` where it names none."""

SEED = f"{TRAINER_COMMON}.seed"
METRIC = "val/task_pass_rate@1"
CANARY_STEPS = 2
_CANARY_TASKS = 32
_DEFAULT_GPUS = 8
"""What the bundled trainer's schema has for `n_gpus_per_node`."""


def everywhere(spec: SweepSpec, now: Now, key: str) -> list[object]:
    """All values that a key has at some point."""
    if key in spec.vary:
        return list(spec.vary[key].values)
    return [spec.set.get(key, now(key))]


def seeds(spec: SweepSpec, is_ajet: bool, now: Now) -> tuple[str, list[int | None]]:
    """Where the seed stands and what it is in every round; ("", [None]) where no place for it is known."""
    key = spec.seed_key or (SEED if is_ajet else "")
    if key and (key in spec.vary or key in spec.set):
        raise SweepError(
            f"{key} is varied or set, but it is where the seeds go; write them as `seeds: [0, 1]`"
        )
    if not key:
        if spec.seeds == 1:
            return "", [None]
        raise SweepError(
            f"seeds: {spec.seeds}, but it is not known where the command takes its seed from; say it with "
            "`--seed-key arg:--seed` (in sweep.yaml: `seed_key: arg:--seed`), or leave seeds at 1"
        )
    if isinstance(spec.seeds, list):
        return key, list(spec.seeds)
    text = str(now(key)).strip()
    first = int(text) if text.isascii() and text.isdigit() else 0
    return key, list(range(first, first + spec.seeds))


def metric(spec: SweepSpec, is_ajet: bool, now: Now) -> str:
    """The metric that is compared: as asked for, else what the bundled trainer's own validations are for."""
    if spec.metric or not is_ajet:
        return spec.metric
    return METRIC if all(map(_validates, everywhere(spec, now, f"{TRAINER_COMMON}.test_freq"))) else ""


def needs(spec: SweepSpec, is_ajet: bool, now: Now, count: Callable[[], int]) -> tuple[Needs, int]:
    """What the machine must set aside for each run, and runs at once."""
    gpus = spec.each.gpus
    if gpus is None:
        asked = _gpus_of_config(spec, now) if is_ajet else None
        gpus = asked if asked is not None else min(1, count())
    parallel = spec.parallel or (max(1, count() // gpus) if gpus else 1)
    memory = memory_bytes(spec.each.memory) if spec.each.memory is not None else None
    ports = tuple(dict.fromkeys(spec.each.ports))
    return Needs(gpus, spec.each.cpus, memory, ports, spec.each.share_gpus, parallel), parallel


def _gpus_of_config(spec: SweepSpec, now: Now) -> int | None:
    """The most that the bundled trainer's config asks for at any point; None where that is this one machine's
    CPU, or not said."""
    if not {"verl", "trinity"} & set(map(str, everywhere(spec, now, "ajet.backbone"))):
        return None
    counts = everywhere(spec, now, f"{TRAINER_COMMON}.n_gpus_per_node")
    return max((count for count in counts if type(count) is int), default=_DEFAULT_GPUS)


def canary(spec: SweepSpec, is_ajet: bool, now: Now) -> Mapping[str, Scalar]:
    """Settings of the short run before all others: a few steps, then a validation and a checkpoint, where the
    blueprint has them at all; {} where the first run itself is watched until its first step."""
    if spec.canary is not None:
        return spec.canary or {}

    def of(name: str) -> list[object]:
        return everywhere(spec, now, f"{TRAINER_COMMON}.{name}")

    is_short = any(type(steps) is int and steps <= CANARY_STEPS for steps in of("total_training_steps"))
    if not is_ajet or is_short or True in of("val_only"):
        return {}
    validates = True in of("val_before_train") or any(map(_validates, of("test_freq")))
    found: dict[str, Scalar] = {
        "total_training_steps": CANARY_STEPS,
        "val_before_train": False,
        "test_freq": CANARY_STEPS if validates else -1,
        "save_freq": -1,
    }
    is_local = any(value in (UNSET, "local") for value in everywhere(spec, now, "ajet.backbone"))
    if validates and not is_local:  # which validates on every task, and refuses another setting
        own = [value for value in of("val_max_num_task_each_validation") if type(value) is int]
        found["val_max_num_task_each_validation"] = min([_CANARY_TASKS, *own])
    return {f"{TRAINER_COMMON}.{name}": value for name, value in found.items()}


def _validates(every: object) -> bool:
    """True if a `test_freq` of this value validates."""
    return every is UNSET or (type(every) is int and every > 0)
