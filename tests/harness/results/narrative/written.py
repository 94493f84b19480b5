"""Sections as a model writes them, and evidence of runs that were never made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.results.compare import compare_results
from harness.results.comparing.types import Comparison
from harness.results.narrative.findings import Section
from harness.results.narrative.run import RunEvidence
from harness.results.types import AttemptSummary, Fact, Record, RunSummary, Source
from tests.harness.results.comparing.made import grid, result
from tests.harness.results.synthetic import attempt, training_rows

EMPTY = Record(Path(), (), {}, (), ())


def section(
    *findings: Mapping[str, Any], words: str = "", name: str = "findings", **more: Any
) -> dict[str, Any]:
    """A section as the journal keeps it."""
    written = {"section": name, "findings": findings, "interpretation": words, **more}
    return Section.model_validate(written).as_json()


def run_evidence(
    attempts: tuple[AttemptSummary, ...] = (AttemptSummary(1, reason="exited", status=0),),
    **facts: float,
) -> RunEvidence:
    """A run with these facts (`key__steps=5` is `key/steps`)."""
    made = {name.replace("__", "/"): value for name, value in facts.items()}
    summary = RunSummary("r", "", "id", "", "", "succeeded", "", None, None, None, "llm", attempts)
    sources = (Source("attempts/01/exit.json", key="x"),)
    return RunEvidence(
        EMPTY,
        {name: Fact(name, name, value, "number", "value", sources) for name, value in made.items()},
        summary,
    )


def collected_run(folder: Path) -> Path:
    """A run of a language model whose results were collected: attempt 1 failed, attempt 2 went to its end."""
    from tests.harness.results.journals import Story

    folder.mkdir()
    (folder / "blueprint.md").write_text("## [exp_purpose]\nDoes it learn?\n")
    attempt(folder).exit(1, seconds=60.0).config("lr: 1e-4\n").pane("loading\n")
    made = attempt(folder, 2).exit(seconds=597.0).config("lr: 1e-4\n").pane("loading\n")
    made.metrics(training_rows(np.random.default_rng(3), range(1, 13)))
    tasks = range(24)
    made.validations(
        {
            0: {f"t{task}": [True, False, False, False] for task in tasks},
            6: {f"t{task}": [task % 2 == 0] * 4 for task in tasks},
            12: {f"t{task}": [True, True, task % 2 == 0, True] for task in tasks},
        }
    )
    story = Story().created(protected_keys=[], code_changes=[]).act("prepare")
    story.attempt(1, "CUDA out of memory.").edit("less memory", ajet__batch=(8, 4)).attempt(2)
    story.ended(reason="attempt 2 ran to its end").write(folder)
    return folder


def failed_sweep() -> Comparison:
    """Three levels with three seeds each: the highest is better by 0.2, the middle one by nothing; a run of
    the middle one failed."""
    noises = (-0.01, 0.0, 0.01)
    levels = ((0.0, 0.5), (0.01, 0.5), (0.1, 0.7))
    study, results = grid({(level,): [base + noise for noise in noises] for level, base in levels})
    failed = result("p02-s2", "p02", 2, None, outcome="failed", why_not="failed: CUDA out of memory")
    return compare_results(study, [failed if one.run.name == "p02-s2" else one for one in results])
