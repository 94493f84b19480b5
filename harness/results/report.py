"""From a result folder and its journal to the documents a person reads.

collect → facts → figures → documents. Everything is built from the raw files each time, so a report can be
built again at any moment and comes out the same; each file is replaced in one step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from harness import installation
from harness.atomic_write import write_atomically
from harness.environment import known_secrets, remembered
from harness.index import sweep_of
from harness.journal import Entry
from harness.outcome import Outcome
from harness.results import text
from harness.results.charts import page_parts
from harness.results.collect import collect
from harness.results.facts import build_facts, differences
from harness.results.figures import draw_figures
from harness.results.manifest import fingerprints, manifest, plain, with_checksum
from harness.results.narrative.added import FILE, TRANSCRIPT, added, narrative_json
from harness.results.narrative.run import RunEvidence
from harness.results.narrative.sections import tell
from harness.results.next_step import NextStep, more_seeds
from harness.results.parts import made
from harness.results.raw import json_file
from harness.results.result import leading_of, result_of
from harness.results.run import RunStory
from harness.results.samples import episode_pages, samples
from harness.results.types import Fact, Report
from harness.results.view import View, build_view
from harness.state import AttemptState
from harness.templating import render, render_lines
from harness.wording import count_text, duration, listed, number_text, time_text

_SCHEMA = 1
DOCUMENTS = ("validation.md", "trial_and_error.md", "result.md", "report.html")
_WRITING: Mapping[str, Any] = {
    **{"count": partial(number_text, unit="count"), "duration": duration, "time_text": time_text},
    **{"md": text.markdown, "prose": text.prose, "code": text.code, "fenced": text.fenced},
}
"""How templates write numbers and texts."""


def build_report(
    result_dir: Path, entries: Sequence[Entry], into: Path | None = None, draws: bool = True
) -> Report:
    """Write validation.md, trial_and_error.md, result.md, result.json, report.html and figures/.

    A number that cannot be found again where it should stand is withheld and named among the discrepancies.
    Raises OSError when the folder cannot be written; whatever the raw files hold, they make no error.
    `into`: another folder to write to, without drawings and without masking the secrets of this environment:
    what `harness verify` compares with. `draws`: the figures are files too; the page draws them itself.
    """
    result_dir = result_dir.resolve()
    target = into or result_dir
    secrets = (known_secrets if into is None else remembered)(result_dir)
    record, run = collect(result_dir), RunStory.of(entries)
    facts = build_facts(record, run.state.blueprint)
    came_to = result_of(record, facts, leading_of(record, run.state.blueprint))
    figures, undrawn = draw_figures(record, facts, into, came_to.metric if came_to else None, draws)
    provenance = json_file(result_dir / "provenance.json", "provenance.json", [])
    left_out: list[str] = []
    answers = made("the sample answers", lambda: samples(record), left_out) or ()
    told = text.clean_tree(run, secrets)
    later = text.clean_tree(added(result_dir), secrets)
    written = {**told.state.narrative, **later.sections}
    said = made("the narrative", lambda: tell(written, RunEvidence(record, facts, told), secrets), left_out)
    missing = _words("missing", facts.values(), record=record, provenance=provenance)
    missing = (*missing, *record.problems[:50], *undrawn, *left_out)
    if run.state.no_words and said is None:
        how = f"`harness narrate {run.state.experiment_id}` adds them"
        missing = (f"words of the language model ({run.state.no_words}); {how}", *missing)
    view = build_view(record, facts, run, came_to, missing, tuple(differences(record, facts)))
    view, provenance = text.clean_tree(view, secrets), text.clean_tree(provenance, secrets)
    next_step = text.clean_tree(NextStep.of(result_dir), secrets)
    values = {"run": told, "view": view, "mark": view["mark"], "next_step": next_step}
    headline = _words("headline", view["key_facts"], **values)
    if next_step is None and came_to and run.outcome == Outcome.SUCCEEDED.value and not sweep_of(result_dir):
        config = result_dir / "attempts" / f"{run.attempts[-1].number:02d}" / "config.yaml"
        next_step = text.clean_tree(more_seeds(run.state.blueprint, config, came_to.metric), secrets)
    values |= {"headline": headline, "finding": "".join(_words("finding", view["key_facts"]))}
    values |= {"figures": figures, "provenance": provenance, "narrative": said, "next_step": next_step}
    values |= {"plan": told.state.blueprint, "samples": text.clean_tree(answers, secrets)}
    values |= {
        "author": told.author,
        "narrator": later.author if later.sections else told.author,
        **page_parts(figures),
    }
    for name in DOCUMENTS:
        content = render(f"reports/{name}.j2", **values, **_WRITING, episode_pages=episode_pages(record))
        write_atomically(target / name, content)
    result = _result_json(values, facts) | narrative_json(said, later, told.author)
    result |= {"headline": headline, "finding": values["finding"], "manifest": manifest(result_dir)}
    built = (*DOCUMENTS, FILE, TRANSCRIPT, *(file for figure in figures for file in figure.files))
    result["documents"] = fingerprints(target, [target / name for name in built])
    write_atomically(target / "result.json", with_checksum(text.clean_tree(result, secrets)))
    html, json = result_dir / "report.html", result_dir / "result.json"
    return Report(html, json, headline, facts, view["missing"], view["discrepancies"], result["result"])


def _words(about: str, facts: Iterable[Fact], **values: Any) -> tuple[str, ...]:
    values |= {"facts": {fact.id: fact for fact in facts}, "listed": listed, "count_text": count_text}
    return render_lines("reports/run_words.txt.j2", about=about, **values)


def _result_json(values: Mapping[str, Any], facts: Mapping[str, Fact]) -> dict[str, Any]:
    run, view, plan = values["run"], values["view"], values["plan"]
    data = {
        "schema": _SCHEMA,
        "built_by": installation.version(),
        "name": run.state.name,
        "experiment_id": run.state.experiment_id,
        "purpose": plan.purpose,
        "blueprint": str(plan.path),
        "command": run.command,
        "policy": run.state.options.policy,
        "outcome": run.outcome,
        "reason": run.reason,
        "started": time_text(run.state.created_at),
        "ended": time_text(run.ended_at),
        "seeds": (values["provenance"] or {}).get("seeds", {}),
        "seed_note": view["seed_note"],
        "deviations": [deviation.as_json() for deviation in view["deviations"]],
        "code_changed_by_model": view["code_diffs"],
        "attempts": [
            _attempt_json(run, view, attempt["state"], attempt["reason"]) for attempt in view["attempts"]
        ],
        "result": view["result"].as_json() if view["result"] is not None else None,
        "axis": view["axis"],
        "facts": [_fact_json(fact) for fact in facts.values()],
        "figures": [{"title": figure.title, "files": figure.files} for figure in values["figures"]],
        "missing": view["missing"],
        "discrepancies": [asdict(discrepancy) for discrepancy in view["discrepancies"]],
    }
    if view["settings"]:
        data["chosen_settings"] = [vars(setting.change) for setting in view["settings"]]
    if run.llm is not None:
        cost = run.llm.cost
        data["llm"] = {**asdict(run.llm), "cost": cost}
        if cost == "price unknown":
            data["llm"]["cost_usd"] = None
    return data


def _attempt_json(run: RunStory, view: View, state: AttemptState, reason: str) -> dict[str, Any]:
    number = state.number
    return {
        "number": number,
        "session": state.session,
        "why_started": state.why,
        "reason": reason,
        "metrics_from": state.ended.metrics_from if state.ended is not None else "",
        "cause": state.diagnosis.cause if state.diagnosis else "",
        "repair": run.repair_after(number),
        "changes": [
            {"attempt": number, "key": one.change.what, "before": one.change.old, "after": one.change.new}
            for one in view["changes"]
            if one.attempt == number
        ],
    }


def _fact_json(fact: Fact) -> dict[str, Any]:
    """A fact as result.json keeps it; NaN and ∞, which JSON does not know, are null with a `text`."""
    data = plain(asdict(fact))
    data |= {"text": fact.text, "interval_95": data.pop("interval")}
    data["sources"] = [{key: value for key, value in each.items() if value} for each in data["sources"]]
    return {key: value for key, value in data.items() if value not in ("", None) or key == "value"}
