"""Small plans and sweeps for tests."""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from harness.config import Scalar
from harness.results.comparing.types import Key, Point
from harness.sweep.plan import SweepPlan, SweepRun
from harness.sweep.state import Sweep, SweepCreated


def grid(
    vary: Mapping[str, Sequence[Scalar]], seeds: Sequence[int | None] = (0, 1), **changes: Any
) -> SweepPlan:
    """A grid over these keys, the first level of each being the baseline; runs are `p01-s0`, `p02-s0`, …,
    then the next seed."""
    keys = tuple(Key(name, tuple(levels), levels[0]) for name, levels in vary.items())
    combined = [dict(zip(vary, levels, strict=True)) for levels in product(*vary.values())]
    points = tuple(Point(f"p{at:02d}", levels, at == 1) for at, levels in enumerate(combined, start=1))
    runs = tuple(
        SweepRun(point.name if seed is None else f"{point.name}-s{seed}", point.name, seed)
        for seed in seeds
        for point in points
    )
    values: dict[str, Any] = {
        "name": "trial", "question": "", "blueprint": "blueprint.md", "design": "grid", "keys": keys,
        "points": points, "runs": runs, "seed_key": "seed",
    }  # fmt: skip
    return SweepPlan(**{**values, **changes})


def plan(points: int = 3, seeds: int = 2, **changes: Any) -> SweepPlan:
    """A plan over one key `a` with the values 1, 2, …, and a canary."""
    return grid({"a": range(1, points + 1)}, range(seeds), **{"canary": {"b": 1}, **changes})


def begun(folder: Path, made: SweepPlan | None = None, **clock: Any) -> Sweep:
    """A sweep whose journal has begun in `folder`."""
    folder.mkdir(exist_ok=True)
    sweep = Sweep(folder, **clock)
    sweep.record(SweepCreated("abcdef123456", made or plan()))
    return sweep
