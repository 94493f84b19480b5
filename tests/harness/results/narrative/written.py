"""Evidence of a run and a sweep that were never made."""

from functools import cache
from pathlib import Path

from harness.results.compare import compare_results
from harness.results.comparing.types import Comparison
from harness.results.narrative.run import RunEvidence
from harness.results.run import RunStory
from harness.results.types import Record
from tests.harness.results.comparing.made import grid, result
from tests.harness.results.journals import Story


@cache
def run_evidence() -> RunEvidence:
    """A run of one attempt, without any numbers."""
    return RunEvidence(Record(Path(), (), {}, (), ()), {}, RunStory.of(Story().created().attempt(1).entries))


def failed_sweep() -> Comparison:
    """Three levels with three seeds each: the highest is better by 0.2, the middle one by nothing; a run of
    the middle one failed."""
    noises = (-0.01, 0.0, 0.01)
    levels = ((0.0, 0.5), (0.01, 0.5), (0.1, 0.7))
    study, results = grid({(level,): [base + noise for noise in noises] for level, base in levels})
    failed = result("p02-s2", "p02", 2, None, outcome="failed", why_not="failed: CUDA out of memory")
    return compare_results(study, [failed if one.run.name == "p02-s2" else one for one in results])
