"""From a result folder and the journal's summary to the documents a person reads.

collect → facts → verify → figures → documents. Everything is built from the raw files each time, so a report
can be built again at any moment and comes out the same; each file is replaced in one step.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from harness.atomic_write import write_atomically
from harness.redaction import secret_values
from harness.results import text
from harness.results.collect import collect
from harness.results.deviations import new_value
from harness.results.drawing_style import colour_variables
from harness.results.facts import build_facts
from harness.results.figures import draw_figures
from harness.results.manifest import fingerprints, manifest, with_checksum
from harness.results.narrative.run import RunEvidence
from harness.results.narrative.sections import Narrative, tell
from harness.results.raw import json_file
from harness.results.recompute import check_facts
from harness.results.types import Discrepancy, Fact, Figure, Record, Report, RunSummary
from harness.results.validation_facts import reported_differences
from harness.results.view import build_page, with_interval
from harness.templating import render
from harness.wording import number_text

_SCHEMA = 1
DOCUMENTS = ("validation.md", "trial_and_error.md", "result.md", "report.html")


def build_report(result_dir: Path, summary: RunSummary, into: Path | None = None) -> Report:
    """Write validation.md, trial_and_error.md, result.md, result.json, report.html and figures/.

    A number that cannot be found again where it should stand is withheld and named among the discrepancies.
    Raises OSError when the folder cannot be written; whatever the raw files hold, they make no error.
    `into`: another folder to write to, without drawings and without masking the secrets of this environment:
    what `harness verify` compares with.
    """
    result_dir = result_dir.resolve()
    target = into or result_dir
    known_secrets = secret_values(os.environ) if into is None else ()
    record = collect(result_dir)
    facts, discrepancies = _checked_facts(record)
    figures, undrawn = draw_figures(record, facts, into)
    provenance = json_file(result_dir / "provenance.json", "provenance.json", [])
    missing = (*_missing(record, facts, provenance is not None), *undrawn)
    page = build_page(record, facts, summary, missing, discrepancies)
    page = text.clean_tree(page, known_secrets)
    provenance = text.clean_tree(provenance, known_secrets)
    said = tell(page["summary"].narrative, RunEvidence(record, facts, page["summary"]), known_secrets)
    _write_documents(target, page, figures, provenance, said)
    result = _result_json(page, record, facts, figures, provenance, said)
    built = (*DOCUMENTS, *(file for figure in figures for file in figure.files))
    result["documents"] = fingerprints(target, [target / name for name in built])
    write_atomically(target / "result.json", with_checksum(text.clean_tree(result, known_secrets)))
    return Report(
        result_dir=result_dir,
        html=result_dir / "report.html",
        json=result_dir / "result.json",
        headline=page["headline"],
        facts=facts,
        missing=page["missing"],
        discrepancies=page["discrepancies"],
    )


def _checked_facts(record: Record) -> tuple[dict[str, Fact], tuple[Discrepancy, ...]]:
    facts = build_facts(record)
    wrong = check_facts(record.result_dir, facts.values())
    checked = {
        name: replace(fact, withheld=wrong[name], interval=None) if name in wrong else fact
        for name, fact in facts.items()
    }
    found = [Discrepancy(facts[name].label, reason) for name, reason in wrong.items()]
    return checked, (*found, *reported_differences(record, facts))


def _missing(record: Record, facts: dict[str, Fact], has_provenance: bool) -> tuple[str, ...]:
    missing = []
    if not record.attempts:
        missing.append("no attempt was launched: there are no raw files")
    elif not any(attempt.rows for attempt in record.attempts):
        missing.append("no metrics: no attempt wrote a metric row")
    if not record.evaluations:
        missing.append("no validation results")
    elif not all(evaluation.tasks for evaluation in record.evaluations):
        missing.append("per-task validation results for some validations, so these have no intervals")
    missing += [
        f"{attempt.folder}/exit.json: how attempt {attempt.number} ended was not recorded"
        for attempt in record.attempts
        if attempt.exit is None
    ]
    if not has_provenance:
        missing.append("provenance.json: code version, packages and hardware were not recorded")
    missing += [
        f"{fact.label.partition(',')[0]} is {fact.text} at {fact.note} ({fact.place})"
        for name, fact in facts.items()
        if name.startswith("metric/") and name.endswith("/first_not_finite") and not fact.withheld
    ]
    return (*missing, *record.problems[:50])


def _write_documents(
    result_dir: Path,
    page: dict[str, Any],
    figures: list[Figure],
    provenance: dict[str, Any] | None,
    said: Narrative | None,
) -> None:
    values: dict[str, Any] = {
        "view": page,
        "mark": page["mark"],
        "narrative": said,
        "figures": figures,
        "provenance": provenance,
        "with_interval": with_interval,
        "new_value": new_value,
        "count": partial(number_text, unit="count"),
    }
    formats: dict[str, Callable[..., str]] = {"md": text.markdown, "code": text.code, "fenced": text.fenced}
    for name in ("validation.md", "trial_and_error.md", "result.md"):
        write_atomically(result_dir / name, render(f"reports/{name}.j2", **values, **formats))
    light, dark = colour_variables(is_dark=False), colour_variables(is_dark=True)
    html = render("reports/report.html.j2", **values, light_colours=light, dark_colours=dark)
    write_atomically(result_dir / "report.html", html)


def _result_json(
    page: dict[str, Any],
    record: Record,
    facts: dict[str, Fact],
    figures: list[Figure],
    provenance: dict[str, Any] | None,
    said: Narrative | None,
) -> dict[str, Any]:
    summary: RunSummary = page["summary"]
    of_attempt = ("number", "session", "why_started", "reason", "cause", "repair")
    data = {
        "schema": _SCHEMA,
        "name": summary.name,
        "experiment_id": summary.experiment_id,
        "purpose": summary.purpose,
        "blueprint": summary.blueprint_path,
        "command": summary.command,
        "policy": summary.policy,
        "outcome": summary.outcome,
        "reason": summary.reason,
        **{name: page[name] for name in ("started", "ended", "headline", "finding")},
        "seeds": (provenance or {}).get("seeds", {}),
        "seed_note": page["seed_note"],
        "deviations": [deviation.as_json() for deviation in page["deviations"]],
        "code_changed_by_model": [one.diff for one in page["code_changes"]],
        "attempts": [
            {**{name: one[name] for name in of_attempt}, "changes": [asdict(each) for each in one["changes"]]}
            for one in page["attempts"]
        ],
        "facts": [fact_to_json(fact) for fact in facts.values()],
        "figures": [{"title": figure.title, "files": list(figure.files)} for figure in figures],
        "missing": list(page["missing"]),
        "discrepancies": [asdict(discrepancy) for discrepancy in page["discrepancies"]],
        "manifest": manifest(record.result_dir),
    }
    if page["settings"]:
        data["chosen_settings"] = [vars(change) for change in page["settings"]]
    if summary.llm is not None:
        use = {**asdict(summary.llm), "cost": summary.llm.cost}
        data["llm"] = use if use["cost"] != "price unknown" else {**use, "cost_usd": None}
    if said is not None:
        data["narrative"] = {"written_by": page["author"], **said.as_json()}
    return data


def fact_to_json(fact: Fact) -> dict[str, Any]:
    """A fact as result.json keeps it; NaN and ∞, which JSON does not know, are null with a `text`."""
    interval = fact.interval
    data: dict[str, Any] = {
        "id": fact.id,
        "label": fact.label,
        "value": fact.value if math.isfinite(fact.value) and not fact.withheld else None,
        "text": fact.text,
        "unit": fact.unit,
        "recipe": fact.recipe,
        "sources": [
            {key: value for key, value in vars(source).items() if value is not None}
            for source in fact.sources
        ],
    }
    if interval is not None and not fact.withheld:
        data["interval_95"] = {
            "low": interval.low,
            "high": interval.high,
            "method": interval.method,
            "n": interval.n,
        }
    optional = {"measure": fact.measure, "note": fact.note, "withheld": fact.withheld}
    return data | {key: value for key, value in optional.items() if value}
