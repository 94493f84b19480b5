"""Sections as a model writes them, and evidence of runs that were never made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.results.narrative.findings import Section
from harness.results.narrative.run import RunEvidence
from harness.results.types import AttemptSummary, Fact, Record, RunSummary, Source

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
