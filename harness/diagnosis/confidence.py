"""How sure a diagnosis is: the share of diagnoses like it that were right.

In: candidates, best first. Out: a number between 0 and 1. Two things are looked at: how much speaks for the
best one, and how far it is ahead of the best one of another family. What that is worth was measured on
labelled logs (`benchmarks/diagnosis.py` prints the reliability table); the tables below are rounded from it.
"""

from collections.abc import Sequence

from harness.diagnosis.ranking import Candidate
from harness.diagnosis.types import UNKNOWN

LEAST = 0.0
"""Strength below which nothing is claimed."""
_BY_STRENGTH = ((5.0, 0.95), (4.0, 0.92), (3.0, 0.88), (2.25, 0.78), (1.5, 0.65), (0.75, 0.45), (LEAST, 0.3))
_BY_LEAD = ((2.0, 1.0), (1.0, 0.95), (0.5, 0.88), (0.0, 0.75))
OF_UNKNOWN = 0.4


def confidence(candidates: Sequence[Candidate]) -> float:
    """How sure the first candidate is the cause; of nothing known, how sure it is that nothing is."""
    if not candidates or candidates[0].family == UNKNOWN:
        return OF_UNKNOWN
    best = candidates[0]
    rivals = [each.points for each in candidates if each.family not in (best.family, UNKNOWN)]
    lead = best.points - max(rivals, default=-10.0)
    return round(_look_up(_BY_STRENGTH, best.strength, 0.2) * _look_up(_BY_LEAD, lead, 0.6), 2)


def _look_up(table: Sequence[tuple[float, float]], value: float, below: float) -> float:
    return next((share for least, share in table if value >= least), below)
