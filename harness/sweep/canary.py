"""The short run before all others: what is set for it beside the first run's own settings.

In: the spec, and what the blueprint has now for a key. Out: settings; {} where the first run itself is
watched until its first step.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.config.edit import Scalar
from harness.config.training import TRAINER_COMMON
from harness.sweep.needs import Now, everywhere
from harness.sweep.spec_schema import SweepSpec
from harness.sweep.values import UNSET

STEPS = 2
_TASKS = 32


def settings(spec: SweepSpec, is_ajet: bool, now: Now) -> Mapping[str, Scalar]:
    """Settings of the short run before all others: a few steps, then a validation and a checkpoint, where the
    blueprint has them at all."""
    if spec.canary is not None:
        return spec.canary or {}
    steps = everywhere(spec, now, f"{TRAINER_COMMON}.total_training_steps")
    if not is_ajet or any(type(value) is int and value <= STEPS for value in steps):
        return {}
    only = everywhere(spec, now, f"{TRAINER_COMMON}.val_only")
    before = everywhere(spec, now, f"{TRAINER_COMMON}.val_before_train")
    every = everywhere(spec, now, f"{TRAINER_COMMON}.test_freq")
    if True in only:
        return {}
    validates = True in before or any(value is UNSET or (type(value) is int and value > 0) for value in every)
    found: dict[str, Scalar] = {
        f"{TRAINER_COMMON}.total_training_steps": STEPS,
        f"{TRAINER_COMMON}.val_before_train": False,
        f"{TRAINER_COMMON}.test_freq": STEPS if validates else -1,
        f"{TRAINER_COMMON}.save_freq": -1,
    }
    most = f"{TRAINER_COMMON}.val_max_num_task_each_validation"
    is_local = any(value in (UNSET, "local") for value in everywhere(spec, now, "ajet.backbone"))
    if validates and not is_local:  # which validates on every task, and refuses to be told otherwise
        own = [value for value in everywhere(spec, now, most) if type(value) is int]
        found[most] = min([_TASKS, *own])
    return found
