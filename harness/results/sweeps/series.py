"""What the pictures of a comparison are drawn from: lines, levels and dots, with nothing left to compute."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Line:
    """One line with its band. `low`, `high`: None where nothing can be said about other seeds; `runs`: the
    steps and values of the runs behind it."""

    label: str
    steps: np.ndarray
    mean: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None
    runs: tuple[tuple[np.ndarray, np.ndarray], ...] = ()
    is_baseline: bool = False


@dataclass(frozen=True)
class CurvePanel:
    """Lines over the steps; `title` "" for a picture of one panel."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class LevelMark:
    """One level of a key. `low`, `high`: where its mean may be, seen from the baseline; None where unknown.
    `runs`: the values of its runs."""

    label: str
    number: float | None
    mean: float
    low: float | None
    high: float | None
    runs: tuple[float, ...]
    is_baseline: bool = False


@dataclass(frozen=True)
class KeyPanel:
    """One key: its levels in order."""

    title: str
    marks: tuple[LevelMark, ...]


@dataclass(frozen=True)
class Dot:
    """One point: what it came to, and what that took. `is_labelled`: its name is written beside it."""

    label: str
    cost: float
    value: float
    low: float | None
    high: float | None
    n: int
    is_front: bool
    is_labelled: bool
