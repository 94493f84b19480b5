"""Small plans and sweeps for tests."""

from pathlib import Path
from typing import Any

from harness.results.comparing.types import Key, Point
from harness.sweep.plan import SweepPlan, SweepRun
from harness.sweep.sweep import Sweep


def plan(points: int = 3, seeds: int = 2, **changes: Any) -> SweepPlan:
    """A plan over one key `a` with the values 1, 2, …; runs `p01-s0`, `p02-s0`, …, then the next seed."""
    levels = tuple(range(1, points + 1))
    made = tuple(Point(f"p{level:02d}", {"a": level}, level == 1) for level in levels)
    runs = tuple(
        SweepRun(f"{point.name}-s{seed}", point.name, seed) for seed in range(seeds) for point in made
    )
    values: dict[str, Any] = {
        "name": "trial", "question": "", "blueprint": "blueprint.md", "design": "grid",
        "keys": (Key("a", levels, 1),), "points": made, "runs": runs, "seed_key": "seed", "canary": {"b": 1},
    }  # fmt: skip
    return SweepPlan(**{**values, **changes})


def begun(folder: Path, made: SweepPlan | None = None, **clock: Any) -> Sweep:
    """A sweep whose journal has begun in `folder`."""
    sweep = Sweep(folder, **clock)
    sweep.record("sweep_created", sweep_id="abcdef123456", plan=(made or plan()).as_json())
    return sweep
