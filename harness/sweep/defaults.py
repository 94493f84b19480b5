"""What a sweep does where its spec is silent: seeds, metric, GPUs and runs at once, the canary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.config import NOTHING
from harness.config.edit import Scalar
from harness.config.training import TRAINER_COMMON
from harness.sweep.hosts import Needs
from harness.sweep.plan import SweepError
from harness.sweep.spec import SweepSpec

Now = Callable[[str], object]
"""The value that the blueprint has for a key, NOTHING where it names none."""

SEED = f"{TRAINER_COMMON}.seed"
METRIC = "val/task_pass_rate@1"
CANARY_STEPS = 2
_CANARY_TASKS = 32
_DEFAULT_GPUS = 8
"""What the bundled trainer's schema has for `n_gpus_per_node`."""


@dataclass(frozen=True)
class Defaults:
    """A spec with what it leaves out. `is_ajet`: the bundled trainer's config tree is varied; `now`: what the
    blueprint has; `gpus_here`: the number of GPUs that may be used."""

    spec: SweepSpec
    is_ajet: bool
    now: Now
    gpus_here: Callable[[], int]

    def seeds(self) -> tuple[str, list[int | None]]:
        """Where the seed stands and what it is in every round; ("", [None]) where no place for it is
        known."""
        spec = self.spec
        key = spec.seed_key or (SEED if self.is_ajet else "")
        if key and (key in spec.vary or key in spec.set):
            raise SweepError(
                f"{key} is varied or set, but it is where the seeds go; write them as `seeds: [0, 1]`"
            )
        if not key:
            if spec.seeds == 1:
                return "", [None]
            raise SweepError(
                f"seeds: {spec.seeds}, but it is not known where the command takes its seed from; say "
                "it with `--seed-key arg:--seed` (in sweep.yaml: `seed_key: arg:--seed`), or leave seeds at 1"
            )
        if isinstance(spec.seeds, list):
            return key, list(spec.seeds)
        text = str(self.now(key)).strip()
        first = int(text) if text.isascii() and text.isdigit() else 0
        return key, list(range(first, first + spec.seeds))

    def metric(self) -> str:
        """The metric that is compared: as asked for, else what the bundled trainer's own validations are
        for."""
        if self.spec.metric or not self.is_ajet:
            return self.spec.metric
        return METRIC if all(map(_validates, self._of("test_freq"))) else ""

    def needs(self) -> tuple[Needs, int]:
        """What the machine must set aside for each run, and runs at once."""
        each = self.spec.each
        gpus = each.gpus
        if gpus is None:
            asked = self._gpus_of_config() if self.is_ajet else None
            gpus = asked if asked is not None else min(1, self.gpus_here())
        parallel = self.spec.parallel or (max(1, self.gpus_here() // gpus) if gpus else 1)
        ports = tuple(dict.fromkeys(each.ports))
        return Needs(gpus, each.cpus, each.memory_bytes, ports, each.share_gpus, parallel), parallel

    def canary(self) -> Mapping[str, Scalar]:
        """Settings of the short run before all others: a few steps, then a validation and a checkpoint, where
        the blueprint has them at all; {} where the first run itself is watched until its first step."""
        if self.spec.canary is not None:
            return self.spec.canary
        lengths = self._of("total_training_steps")
        is_short = any(type(steps) is int and steps <= CANARY_STEPS for steps in lengths)
        if not self.is_ajet or is_short or True in self._of("val_only"):
            return {}
        validates = True in self._of("val_before_train") or any(map(_validates, self._of("test_freq")))
        found: dict[str, Scalar] = {
            "total_training_steps": CANARY_STEPS,
            "val_before_train": False,
            "test_freq": CANARY_STEPS if validates else -1,
            "save_freq": -1,
        }
        if validates and not {NOTHING, "local"}.intersection(self._everywhere("ajet.backbone")):
            # the backbone `local` validates on every task, and refuses another setting
            own = [tasks for tasks in self._of("val_max_num_task_each_validation") if type(tasks) is int]
            found["val_max_num_task_each_validation"] = min([_CANARY_TASKS, *own])
        return {f"{TRAINER_COMMON}.{name}": value for name, value in found.items()}

    def _gpus_of_config(self) -> int | None:
        """The most that the bundled trainer's config asks for at any point; None where that is this one
        machine's CPU, or not said."""
        if not {"verl", "trinity"}.intersection(map(str, self._everywhere("ajet.backbone"))):
            return None
        counts = (count for count in self._of("n_gpus_per_node") if type(count) is int)
        return max(counts, default=_DEFAULT_GPUS)

    def _of(self, name: str) -> list[object]:
        return self._everywhere(f"{TRAINER_COMMON}.{name}")

    def _everywhere(self, key: str) -> list[object]:
        """All values that a key has at some point."""
        varied = self.spec.vary.get(key)
        return list(varied.values) if varied is not None else [self.spec.set.get(key, self.now(key))]


def _validates(every: object) -> bool:
    """True if a `test_freq` of this value validates."""
    return every is NOTHING or (type(every) is int and every > 0)
