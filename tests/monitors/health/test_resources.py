"""Disk and memory that run out, and such as only look like it."""

from __future__ import annotations

import pytest

from monitors.health.resources import RunningOut

GB = 10**9
EVERY_S = 30.0


def alarms(disk: list[float], memory: list[float] | None = None) -> list[list[str]]:
    """The kinds that stand after each sample; gigabytes."""
    left = {"disk_fills": disk, "memory_fills": memory or [64.0] * len(disk)}
    resources = {kind: RunningOut(kind, "it") for kind in left}  # type: ignore[arg-type]
    return [
        [
            kind
            for kind, resource in resources.items()
            if resource.add(EVERY_S * number, int(left[kind][number] * GB))
        ]
        for number in range(len(disk))
    ]


def test_disk_that_fills_is_told_half_an_hour_before() -> None:
    free = [100 - 0.25 * number for number in range(400)]  # empty after 400 samples
    found = alarms(free)
    first = next(number for number, kinds in enumerate(found) if kinds)
    assert found[first] == ["disk_fills"]
    assert 25 * 60 <= (400 - first) * EVERY_S <= 31 * 60


def test_memory_that_leaks_is_told() -> None:
    found = alarms([500.0] * 120, [60 - 0.45 * number for number in range(120)])
    assert found[-1] == ["memory_fills"]


@pytest.mark.parametrize(
    "free",
    [
        [100.0] * 300,
        [100 - 3 * min(number, 15) for number in range(300)],  # a model is loaded
        [60 - 8 * (number // 20 % 5) for number in range(300)],  # checkpoints, of which the oldest go
        [100 - 0.01 * number for number in range(300)],
        [5 + (number % 7) / 10 for number in range(300)],
        [100 - 9 * number for number in range(11)],
    ],
    ids=["steady", "start", "checkpoints", "slow", "low but steady", "too few samples"],
)
def test_no_alarm(free: list[float]) -> None:
    assert not any(alarms(free)) and not any(alarms([500.0] * len(free), free))
