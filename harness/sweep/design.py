"""From a spec and its blueprint to the plan: levels and baselines, points, runs in their order, the canary.

In: a `SweepSpec`, the `Blueprint`, and what the blueprint has now for a key. Out: `SweepPlan`. Nothing is
written and nothing is drawn by chance but with the spec's own seed: the same spec gives the same plan.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from harness.config.edit import ConfigEditError, Scalar
from harness.config.training import TRAINER_COMMON, TrainingConfig
from harness.results.comparing.types import Expectation, Key, Point
from harness.sweep import canary, needs
from harness.sweep.needs import Now
from harness.sweep.spec_schema import DEFAULT_SAMPLES, SweepSpec
from harness.sweep.types import SweepError, SweepPlan, SweepRun
from harness.sweep.values import UNSET, is_same, labels, means_same, point_name

if TYPE_CHECKING:
    from harness.blueprint import Blueprint

MOST_RUNS = 2000
SEED = f"{TRAINER_COMMON}.seed"
METRIC = "val/task_pass_rate@1"

Levels = tuple[Scalar, ...]


def make_plan(
    spec: SweepSpec, blueprint: Blueprint, now: Now, gpus_here: Callable[[], int] | None = None
) -> SweepPlan:
    """Everything that is decided before the first run, but for `options`.

    `now`: the value that the blueprint has for a key, `UNSET` where it names none. `gpus_here`: the number of
    GPUs that may be used, asked of the machine if left out. Raises SweepError.
    """
    keys = tuple(_key(name, spec, now) for name in spec.vary)
    points = _points(spec, keys)
    is_ajet = _is_ajet(blueprint)
    seed_key, seeds = _seeds(spec, is_ajet, now)
    _check_count(spec, len(points), len(seeds))
    gpus, parallel = needs.slots(spec, is_ajet, now, gpus_here or needs.gpus_here)
    return SweepPlan(
        name=spec.name or f"{blueprint.name}-sweep",
        question=spec.question,
        blueprint=str(blueprint.path),
        design=spec.design,
        keys=keys,
        points=points,
        runs=tuple(SweepRun(_run_name(point, seed), point.name, seed) for seed in seeds for point in points),
        seed_key=seed_key,
        settings=spec.set,
        metric=_metric(spec, is_ajet, now),
        goal=spec.goal,
        threshold=spec.threshold,
        parallel=parallel,
        budget_s=spec.budget_s,
        needs=needs.of_run(spec, gpus),
        canary=canary.settings(spec, is_ajet, now),
        expectations=_expectations(spec, keys),
    )


# --- points -------------------------------------------------------------------------------------------------


def _key(name: str, spec: SweepSpec, now: Now) -> Key:
    """The key with its baseline: the stated one, else the blueprint's own, else the first level."""
    varied = spec.vary[name]
    levels = tuple(varied.values)
    wanted = varied.stated_baseline if varied.stated_baseline is not UNSET else now(name)
    return Key(name, levels, next((level for level in levels if means_same(level, wanted)), levels[0]))


def _points(spec: SweepSpec, keys: tuple[Key, ...]) -> tuple[Point, ...]:
    """The points of the design, the baseline first."""
    base = tuple(key.baseline for key in keys)
    if spec.design == "one-at-a-time":
        found = [base, *_alone(keys, base)]
    elif spec.design == "random":
        found = _drawn(keys, base, spec.samples or DEFAULT_SAMPLES, random.Random(spec.design_seed))
    else:
        _check_count(spec, math.prod(len(key.levels) for key in keys), 1)
        others = (levels for levels in itertools.product(*(key.levels for key in keys)))
        found = [base, *(levels for levels in others if not _is(levels, base))]
    short = labels(key.name for key in keys)
    digits = max(2, len(str(len(found))))
    points = []
    for number, levels in enumerate(found, start=1):
        named = [(short[key.name], level) for key, level in zip(keys, levels, strict=True)]
        if spec.design == "one-at-a-time":
            named = [
                part
                for part, level, own in zip(named, levels, base, strict=True)
                if not _is((level,), (own,))
            ]
        name = point_name(number, digits, named or [("baseline", "")])
        by_key = {key.name: level for key, level in zip(keys, levels, strict=True)}
        points.append(Point(name, by_key, number == 1))
    return tuple(points)


def _alone(keys: tuple[Key, ...], base: Levels) -> list[Levels]:
    """The baseline with one key at another level, for every such level."""
    return [
        (*base[:place], level, *base[place + 1 :])
        for place, key in enumerate(keys)
        for level in key.levels
        if not _is((level,), (key.baseline,))
    ]


def _drawn(keys: tuple[Key, ...], base: Levels, samples: int, chance: random.Random) -> list[Levels]:
    """The baseline and other points of the grid, each as likely as any other, none twice."""
    size = math.prod(len(key.levels) for key in keys)
    if samples > size:
        raise SweepError(
            f"samples: {samples} points cannot be drawn from a grid that has {size}; take `design: grid`, "
            "fewer samples, or more values"
        )
    found = {_place(keys, base): base}
    while len(found) < samples:
        number = chance.randrange(size)
        found.setdefault(number, _at(keys, number))
    return list(found.values())


def _at(keys: tuple[Key, ...], number: int) -> Levels:
    """The point of the grid with this number, counted as `itertools.product` does."""
    levels: list[Scalar] = []
    for key in reversed(keys):
        number, place = divmod(number, len(key.levels))
        levels.insert(0, key.levels[place])
    return tuple(levels)


def _place(keys: tuple[Key, ...], point: Levels) -> int:
    number = 0
    for key, value in zip(keys, point, strict=True):
        place = next(place for place, level in enumerate(key.levels) if _is((level,), (value,)))
        number = number * len(key.levels) + place
    return number


def _is(one: Levels, other: Levels) -> bool:
    """Whether these are the same levels; `1` and `true` are not."""
    return one == other and [type(value) for value in one] == [type(value) for value in other]


# --- runs ---------------------------------------------------------------------------------------------------


def _seeds(spec: SweepSpec, is_ajet: bool, now: Now) -> tuple[str, list[int | None]]:
    """Where the seed stands and what it is in every round; ("", [None]) where nobody knows a place for it."""
    key = spec.seed_key or (SEED if is_ajet else "")
    for given, where in ((spec.vary, "varied"), (spec.set, "set")):
        if key and key in given:
            raise SweepError(f"{key} is {where}, but it is where the seeds go; write them as `seeds: [0, 1]`")
    if not key:
        if spec.seeds == 1:
            return "", [None]
        raise SweepError(
            f"seeds: {spec.seeds}, but it is not known where the command takes its seed from; say it with "
            "`--seed-key arg:--seed` (in sweep.yaml: `seed_key: arg:--seed`), or leave seeds at 1"
        )
    if isinstance(spec.seeds, list):
        return key, list(spec.seeds)
    first = _whole(now(key)) or 0
    return key, list(range(first, first + spec.seeds))


def _whole(value: object) -> int | None:
    text = str(value).strip()
    return int(text) if text.isascii() and text.isdigit() else None


def _run_name(point: Point, seed: int | None) -> str:
    return point.name if seed is None else f"{point.name}-s{seed}"


def _check_count(spec: SweepSpec, points: int, seeds: int) -> None:
    if points * seeds <= MOST_RUNS:
        return
    counted = f"{points} points" + (f" x {seeds} seeds = {points * seeds} runs" if seeds > 1 else "")
    sizes = ", ".join(f"{name} has {len(varied.values)} values" for name, varied in spec.vary.items())
    mend = {
        "grid": "take `design: one-at-a-time`, or `design: random` with fewer samples, or fewer values",
        "random": "take fewer samples or fewer seeds",
        "one-at-a-time": "take fewer values or fewer seeds",
    }
    raise SweepError(f"{counted} are more than the {MOST_RUNS} of one sweep ({sizes}): {mend[spec.design]}")


def _metric(spec: SweepSpec, is_ajet: bool, now: Now) -> str:
    """The metric that is compared: as asked for, else what the bundled trainer's own validations are for."""
    if spec.metric or not is_ajet:
        return spec.metric
    every = needs.everywhere(spec, now, f"{TRAINER_COMMON}.test_freq")
    validates = all(value is UNSET or (type(value) is int and value > 0) for value in every)
    return METRIC if validates else ""


def _is_ajet(blueprint: Blueprint) -> bool:
    """Whether the bundled trainer's config tree is what the runs are made from."""
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
        if means_same(item.level, key.baseline):
            raise SweepError(
                f"expect: {item.level!r} is the baseline of {item.key}, which the others are compared with"
            )
        level = next(level for level in key.levels if is_same(level, item.level))
        found.append(Expectation(item.key, level, item.effect, item.why))
    return tuple(found)
