"""The evidence of every world of the corpus, built once."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.results.claims import Evidence, evidence_of_comparison, evidence_of_run
from harness.results.collect import collect
from harness.results.facts import build_facts
from tests.harness.results.claims import comparison_worlds, run_worlds
from tests.harness.results.claims.computed_worlds import decay, script

__all__ = ["COMPARISONS", "RUNS", "evidence"]

COMPARISONS = {**comparison_worlds.COMPARISONS, "decay": decay}
RUNS = {**run_worlds.RUNS, "script": script}


@cache
def evidence(world: str) -> Evidence:
    """What may be said of one of these worlds."""
    if world in COMPARISONS:
        return evidence_of_comparison(COMPARISONS[world]())
    with TemporaryDirectory() as folder:
        told = RUNS[world](Path(folder))
        record = collect(Path(folder))
        return evidence_of_run(record, build_facts(record), told)
