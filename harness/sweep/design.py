"""From a spec and its blueprint to the plan: levels and baselines, points, runs in their order; and what can
be said of it before it runs (`Forecast`).

In: a `SweepSpec` and the `Blueprint`. Out: `SweepPlan`. Nothing is written, and nothing is drawn by chance
but with the spec's own seed: the same spec gives the same plan.
"""

import itertools
import math
import os
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.blueprint import Blueprint
from harness.codec import encode
from harness.config import NOTHING, Scalar, as_text, same_meaning
from harness.config.training import TRAINER_COMMON, TrainingConfig
from harness.earlier_runs import Estimate
from harness.machine.gpus import GpuError, usable
from harness.options import RunOptions
from harness.results.comparing.types import Expectation, Goal, Key, Point
from harness.results.leading import PASS_RATE, goal_of
from harness.sweep.hosts import Needs
from harness.sweep.plan import SweepError, SweepPlan, SweepRun
from harness.sweep.points import current, reading
from harness.sweep.spec import DEFAULT_SAMPLES, SweepSpec
from harness.wording import short_labels

Now = Callable[[str], object]
"""The value that the blueprint has for a key, NOTHING where it names none."""

SEED = f"{TRAINER_COMMON}.seed"
CANARY_STEPS = 2
_CANARY_TASKS = 32
_DEFAULT_GPUS = 8  # what the bundled trainer's schema has for `n_gpus_per_node`
MOST_RUNS = 2000
LONGEST_NAME = 60
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
Places = tuple[int, ...]
"""A point of the grid: for every key, which of its levels."""


def make_plan(
    spec: SweepSpec,
    blueprint: Blueprint,
    options: RunOptions | None = None,
    now: Now | None = None,
    gpus_here: Callable[[], int] | None = None,
) -> SweepPlan:
    """Everything that is decided before the first run. `options`: of the whole sweep; each run gets its share
    of what a model may cost. `gpus_here`: the number of GPUs that may be used, asked of the machine if left
    out. Raises SweepError."""
    now = now or (lambda key: current(blueprint, key))
    keys = tuple(_key(name, spec, now) for name in spec.vary)
    defaults = Defaults(spec, is_ajet(blueprint), now, gpus_here or count_gpus)
    points = _points(spec, keys)
    seed_key, seeds = defaults.seeds()
    _check_count(spec, len(points), len(seeds))
    metric, goal = defaults.metric(blueprint)
    needs, parallel = defaults.needs()
    canary, options = defaults.canary(), options or RunOptions()
    if options.max_cost_usd is not None:
        share = options.max_cost_usd / (len(points) * len(seeds) + bool(canary))
        options = replace(options, max_cost_usd=share)
    return SweepPlan(
        name=spec.name or f"{blueprint.name}-sweep",
        question=spec.question,
        blueprint=str(blueprint.path),
        design=spec.design,
        keys=keys,
        points=points,
        runs=tuple(
            SweepRun(point.name if seed is None else f"{point.name}-s{seed}", point.name, seed)
            for seed in seeds
            for point in points
        ),
        seed_key=seed_key,
        settings=spec.set,
        metric=metric,
        goal=goal,
        threshold=spec.threshold,
        parallel=parallel,
        budget_s=spec.budget_s,
        needs=needs,
        canary=canary,
        expectations=tuple(_expectation(spec, keys)),
        options=encode(options),
    )


def count_gpus() -> int:
    """The number of GPUs that a process started here may use. Raises SweepError."""
    try:
        return len(usable(os.environ))
    except GpuError as error:
        raise SweepError(f"{error}; `gpus: 0` under `each` makes a sweep without GPUs") from error


def is_ajet(blueprint: Blueprint) -> bool:
    """True if the bundled trainer's config tree is what the runs are made from."""
    if blueprint.yaml_path is None:
        return blueprint.launch_command is None
    with reading(blueprint.yaml_path):
        return TrainingConfig.read(blueprint.yaml_path).is_ajet


def _key(name: str, spec: SweepSpec, now: Now) -> Key:
    """The key with its baseline: the stated one, else the blueprint's own, else the first level."""
    varied = spec.vary[name]
    wanted = varied.baseline if varied.has_baseline else now(name)
    own = next((level for level in varied.values if same_meaning(level, wanted)), varied.values[0])
    return Key(name, tuple(varied.values), own)


def _expectation(spec: SweepSpec, keys: Sequence[Key]) -> list[Expectation]:
    """What is expected, its levels spelt as the key's own."""
    found, by_name = [], {key.name: key for key in keys}
    for item in spec.expect:
        key = by_name[item.key]
        if key.is_baseline(item.level):
            raise SweepError(
                f"expect: {item.level!r} is the baseline of {item.key}, which the others are compared with"
            )
        found.append(Expectation(item.key, key.levels[key.place(item.level)], item.effect, item.why))
    return found


# --- points -------------------------------------------------------------------------------------------------


def _points(spec: SweepSpec, keys: Sequence[Key]) -> tuple[Point, ...]:
    base = tuple(key.place(key.baseline) for key in keys)
    sizes = [len(key.levels) for key in keys]
    found = {base: None, **dict.fromkeys(_others(spec, base, sizes))}  # each point once
    short = short_labels(key.name for key in keys)
    digits = max(2, len(str(len(found))))
    points = []
    for number, places in enumerate(found, start=1):
        levels = {key.name: key.levels[place] for key, place in zip(keys, places, strict=True)}
        named: list[tuple[str, Scalar]] = [
            (short[key.name], levels[key.name])
            for key, place, own in zip(keys, places, base, strict=True)
            if spec.design != "one-at-a-time" or place != own
        ]
        points.append(Point(point_name(number, digits, named or [("baseline", "")]), levels, places == base))
    return tuple(points)


def point_name(number: int, digits: int, parts: Sequence[tuple[str, Scalar]]) -> str:
    """`p03-kl_loss_coef-0.01-num_repeat-8`: safe as a folder's name; the number makes it unique."""
    words = [
        word for label, value in parts for word in (label, as_text(value).rstrip("/").rpartition("/")[2])
    ]
    tail = [_UNSAFE.sub("_", word).strip(".") for word in words]
    return "-".join([f"p{number:0{digits}d}", *filter(None, tail)])[:LONGEST_NAME].rstrip("-.")


def _others(spec: SweepSpec, base: Places, sizes: Sequence[int]) -> list[Places]:
    if spec.design == "one-at-a-time":
        return [
            (*base[:key], place, *base[key + 1 :]) for key, size in enumerate(sizes) for place in range(size)
        ]
    if spec.design == "grid":
        _check_count(spec, math.prod(sizes), 1)
        return list(itertools.product(*map(range, sizes)))
    samples, chance = spec.samples or DEFAULT_SAMPLES, random.Random(spec.design_seed)
    if samples > math.prod(sizes):
        raise SweepError(
            f"samples: {samples} points cannot be drawn from a grid that has {math.prod(sizes)}; take "
            "`design: grid`, fewer samples, or more values"
        )
    drawn = {base: None}
    while len(drawn) < samples:
        drawn.setdefault(tuple(chance.randrange(size) for size in sizes))
    return list(drawn)


def _check_count(spec: SweepSpec, points: int, seeds: int) -> None:
    if points * seeds > MOST_RUNS:
        counted = f"{points} points" + (f" x {seeds} seeds = {points * seeds} runs" if seeds > 1 else "")
        sizes = ", ".join(f"{name} has {len(varied.values)} values" for name, varied in spec.vary.items())
        raise SweepError(
            f"{counted} are more than the {MOST_RUNS} of one sweep ({sizes}): take fewer values or seeds, "
            "`design: one-at-a-time`, or `design: random` with fewer samples"
        )


# --- where the spec is silent -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Defaults:
    """A spec with what it leaves out. `is_ajet`: the bundled trainer's config tree is varied; `now`: what the
    blueprint has; `gpus_here`: the number of GPUs that may be used."""

    spec: SweepSpec
    is_ajet: bool
    now: Now
    gpus_here: Callable[[], int]

    def seeds(self) -> tuple[str, list[int | None]]:
        """Where the seed stands and what it is in every round; ("", [None]) where no place is known."""
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
                "it with `--seed-key arg:--seed` (as a field: `seed_key: arg:--seed`), or leave seeds at 1"
            )
        if isinstance(spec.seeds, list):
            return key, list(spec.seeds)
        text = str(self.now(key)).strip()
        first = int(text) if text.isascii() and text.isdigit() else 0
        return key, list(range(first, first + spec.seeds))

    def metric(self, plan: Blueprint) -> tuple[str, Goal | None]:
        """The metric that is compared and which way is better: as asked for, else as the blueprint says, else
        what the bundled trainer's validations are for, and what the name says; "" and None where that is left
        to the first run."""
        validates = self.is_ajet and all(map(_validates, self._of("test_freq")))
        own = plan.metrics.metric if plan.metrics is not None else ""
        metric = self.spec.metric or own or (PASS_RATE if validates else "")
        return metric, self.spec.goal or (goal_of(plan, metric) if metric else None)

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
        """The most that the bundled trainer's config asks for at any point; None for the CPU, or unsaid."""
        if not {"verl", "trinity"}.intersection(map(str, self._everywhere("ajet.backbone"))):
            return None
        if set(map(str, self._of("device"))) == {"cpu"}:
            return None
        counts = (count for count in self._of("n_gpus_per_node") if type(count) is int)
        return max(counts, default=_DEFAULT_GPUS)

    def _of(self, name: str) -> list[object]:
        return self._everywhere(f"{TRAINER_COMMON}.{name}")

    def _everywhere(self, key: str) -> list[object]:
        varied = self.spec.vary.get(key)
        return list(varied.values) if varied is not None else [self.spec.set.get(key, self.now(key))]


def _validates(every: object) -> bool:
    return every is NOTHING or (type(every) is int and every > 0)


# --- how long it takes, and how small a difference it could find --------------------------------------------


@dataclass(frozen=True)
class Forecast:
    """Times in seconds.

    `run_s`, `all_s`: expected, None where no earlier run tells it; `source`: which runs do; `most_run_s`,
    `most_all_s`: at the runs' own time limits. `within_budget`: how many runs the budget is enough for, by
    what is expected, else at the limits; None without a budget. `two_points`: standard deviations between
    seeds by which two points must differ to be found with 80 % power, None with one seed; `two_levels`: the
    same for two values of a key, averaged over the other keys of a grid.
    """

    runs: int
    run_s: float | None
    all_s: float | None
    most_run_s: float
    most_all_s: float
    within_budget: int | None
    seeds: int
    two_points: float | None
    two_levels: dict[str, float]
    source: str = ""

    @property
    def fits_budget(self) -> bool | None:
        """True if the budget is enough for all runs; None without one."""
        return None if self.within_budget is None else self.within_budget >= self.runs


def forecast(plan: SweepPlan, estimate: Estimate | None, most_s: float) -> Forecast:
    """`estimate`: what one run takes, None if unknown; `most_s`: what it may take at most. The canary,
    whose time is not known, is not counted."""
    estimate_s = estimate.run_s if estimate is not None else None
    runs, seeds = len(plan.runs), len(plan.runs) // len(plan.points)
    rounds = math.ceil(runs / plan.parallel)
    one = most_s if estimate_s is None else estimate_s
    within = None
    if plan.budget_s is not None:
        within = min(runs, math.floor(plan.budget_s / one) * plan.parallel) if one > 0 else runs
    return Forecast(
        runs=runs,
        run_s=estimate_s,
        all_s=None if estimate_s is None else rounds * estimate_s,
        most_run_s=most_s,
        most_all_s=rounds * most_s,
        within_budget=within,
        seeds=seeds,
        two_points=detectable(seeds, 1),
        two_levels=_levels(plan, seeds),
        source=estimate.source if estimate is not None else "",
    )


def _levels(plan: SweepPlan, seeds: int) -> dict[str, float]:
    if plan.design != "grid" or len(plan.keys) < 2:
        return {}
    found = {key.name: detectable(seeds, len(plan.points) // len(key.levels)) for key in plan.keys}
    return {name: ratio for name, ratio in found.items() if ratio is not None}


def detectable(seeds: int, points: int) -> float | None:
    """Standard deviations that two groups of so many points must differ by: the test of `stats.contrast` at
    5 %, 80 % power if all points scatter alike, before any correction for several comparisons; None with one
    seed."""
    from harness.results.stats import planned_ratio

    if seeds < 2:
        return None
    return planned_ratio(2 * points, seeds) * math.sqrt(2 / (seeds * points))
