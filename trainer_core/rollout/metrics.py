"""What the episodes of a step note about themselves, as metrics of its row."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from trainer_core.types import Episode

_FAILED = "rollout/failed/"
_COUNTED = (_FAILED, "rollout/abnormal/")
_SPREAD = ("rollout/calls", "rollout/seconds")


def rollout_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    """Episodes by failure and by abnormal answer, mean and maximum of calls and seconds, and the means of all
    else over the episodes that have it."""
    metrics: dict[str, float] = {}
    for name in sorted({name for episode in episodes for name in episode.metrics}):
        values = [episode.metrics[name] for episode in episodes if name in episode.metrics]
        if name.startswith(_COUNTED):
            metrics[name] = sum(values)
        elif name in _SPREAD:
            metrics |= {f"{name}/mean": fmean(values), f"{name}/max": max(values)}
        else:
            metrics[name] = fmean(values)
    return metrics


def failures(episodes: Sequence[Episode]) -> dict[str, float]:
    """How many failed, by kind."""
    counts = rollout_metrics(episodes).items()
    return {name.removeprefix(_FAILED): count for name, count in counts if name.startswith(_FAILED)}
