"""From a spec and its blueprint to the plan: levels and baselines, points, runs in their order.

In: a `SweepSpec`, the `Blueprint`, and what the blueprint has now for a key. Out: `SweepPlan`. Nothing is
written and nothing is drawn by chance but with the spec's own seed: the same spec gives the same plan.
"""

from __future__ import annotations

import itertools
import math
import os
import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from harness.config import same_value
from harness.config.edit import ConfigEditError, Scalar
from harness.config.training import TrainingConfig
from harness.results.comparing.types import Expectation, Key, Point
from harness.sweep import defaults
from harness.sweep.defaults import Now
from harness.sweep.plan import SweepError, SweepPlan, SweepRun
from harness.sweep.spec import DEFAULT_SAMPLES, SweepSpec
from harness.sweep.values import UNSET, means_same, point_name
from harness.wording import short_labels

if TYPE_CHECKING:
    from harness.blueprint import Blueprint

MOST_RUNS = 2000
_TOO_MANY = {
    "grid": "take `design: one-at-a-time`, or `design: random` with fewer samples, or fewer values",
    "random": "take fewer samples or fewer seeds",
    "one-at-a-time": "take fewer values or fewer seeds",
}

Levels = tuple[Scalar, ...]


def make_plan(
    spec: SweepSpec, blueprint: Blueprint, now: Now, gpus_here: Callable[[], int] | None = None
) -> SweepPlan:
    """Everything that is decided before the first run, but for `options`.

    `gpus_here`: the number of GPUs that may be used, asked of the machine if left out. Raises SweepError.
    """
    keys = tuple(_key(name, spec, now) for name in spec.vary)
    points = _points(spec, keys)
    is_ajet = _is_ajet(blueprint)
    seed_key, seeds = defaults.seeds(spec, is_ajet, now)
    _check_count(spec, len(points), len(seeds))
    needs, parallel = defaults.needs(spec, is_ajet, now, gpus_here or count_gpus)
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
        metric=defaults.metric(spec, is_ajet, now),
        goal=spec.goal,
        threshold=spec.threshold,
        parallel=parallel,
        budget_s=spec.budget_s,
        needs=needs,
        canary=defaults.canary(spec, is_ajet, now),
        expectations=_expectations(spec, keys),
    )


def count_gpus() -> int:
    """The number of GPUs that a process started here may use. Raises SweepError."""
    from harness.machine.gpus import GpuError, usable

    try:
        return len(usable(os.environ))
    except GpuError as error:
        raise SweepError(f"{error}; `gpus: 0` under `each` makes a sweep without GPUs") from error


def _key(name: str, spec: SweepSpec, now: Now) -> Key:
    """The key with its baseline: the stated one, else the blueprint's own, else the first level."""
    varied = spec.vary[name]
    levels = tuple(varied.values)
    wanted = varied.stated_baseline if varied.stated_baseline is not UNSET else now(name)
    return Key(name, levels, next((level for level in levels if means_same(level, wanted)), levels[0]))


# --- points -------------------------------------------------------------------------------------------------


def _points(spec: SweepSpec, keys: tuple[Key, ...]) -> tuple[Point, ...]:
    """The points of the design, the baseline first."""
    base = tuple(_place(key, key.baseline) for key in keys)
    sizes = [len(key.levels) for key in keys]
    if spec.design == "one-at-a-time":
        found = [base, *_alone(base, sizes)]
    elif spec.design == "random":
        found = _drawn(base, sizes, spec.samples or DEFAULT_SAMPLES, random.Random(spec.design_seed))
    else:
        _check_count(spec, math.prod(sizes), 1)
        found = [base, *(places for places in itertools.product(*map(range, sizes)) if places != base)]
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


def _place(key: Key, value: Scalar) -> int:
    """Which of the key's levels this is."""
    return next(place for place, level in enumerate(key.levels) if same_value(level, value))


def _alone(base: tuple[int, ...], sizes: list[int]) -> list[tuple[int, ...]]:
    """The baseline with one key at another level, for every such level."""
    return [
        (*base[:key], place, *base[key + 1 :])
        for key, size in enumerate(sizes)
        for place in range(size)
        if place != base[key]
    ]


def _drawn(
    base: tuple[int, ...], sizes: list[int], samples: int, chance: random.Random
) -> list[tuple[int, ...]]:
    """The baseline and other points of the grid, each as likely as any other, none twice."""
    if samples > math.prod(sizes):
        raise SweepError(
            f"samples: {samples} points cannot be drawn from a grid that has {math.prod(sizes)}; take "
            "`design: grid`, fewer samples, or more values"
        )
    found = {base: None}
    while len(found) < samples:
        found.setdefault(tuple(chance.randrange(size) for size in sizes))
    return list(found)


def _check_count(spec: SweepSpec, points: int, seeds: int) -> None:
    if points * seeds <= MOST_RUNS:
        return
    counted = f"{points} points" + (f" x {seeds} seeds = {points * seeds} runs" if seeds > 1 else "")
    sizes = ", ".join(f"{name} has {len(varied.values)} values" for name, varied in spec.vary.items())
    raise SweepError(
        f"{counted} are more than the {MOST_RUNS} of one sweep ({sizes}): {_TOO_MANY[spec.design]}"
    )


# --- the rest -----------------------------------------------------------------------------------------------


def _is_ajet(blueprint: Blueprint) -> bool:
    """True if the bundled trainer's config tree is what the runs are made from."""
    if blueprint.yaml_path is None:
        return blueprint.launch_command is None
    try:
        return TrainingConfig.read(blueprint.yaml_path).is_ajet
    except (ConfigEditError, OSError, UnicodeDecodeError) as error:
        raise SweepError(f"the config {blueprint.yaml_path} cannot be read: {error}") from error


def _expectations(spec: SweepSpec, keys: tuple[Key, ...]) -> tuple[Expectation, ...]:
    """What is expected, its levels spelt as the key's own."""
    found = []
    for item in spec.expect:
        key = next(key for key in keys if key.name == item.key)
        if same_value(item.level, key.baseline):
            raise SweepError(
                f"expect: {item.level!r} is the baseline of {item.key}, which the others are compared with"
            )
        level = key.levels[_place(key, item.level)]
        found.append(Expectation(item.key, level, item.effect, item.why))
    return tuple(found)
