"""What the documents of a run show: one object, which the templates lay out.

In: record, facts, the run's story and the rest. Out: `View`. `report` cleans and redacts every text in it, so
what is cut or joined for showing is a property, or a template's, made from texts that are clean already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any

from harness.attempt import Evidence, reason_text
from harness.diagnosis.reading import read
from harness.metric_files.reading import propositions
from harness.results.collect import EVALUATION
from harness.results.deviations import Deviation, chosen, code_diffs, config_changes, deviations, net
from harness.results.facts import MAX_METRICS, evenly, listed_metrics
from harness.results.result import Result
from harness.results.run import RunStory
from harness.results.sources import SourceError, SourceReader
from harness.results.text import CONTROL
from harness.results.types import (
    ONE_SEED,
    Discrepancy,
    Fact,
    Record,
    Source,
    attempt_folder,
)
from harness.state import AttemptState
from harness.wording import DASH, shortened
from monitors.metrics.axis import AXIS_WORDS, whole
from monitors.metrics.propose import Proposal

PAGE_VALIDATIONS = 40  # rows of the validation table on the page; the Markdown table has them all
_OF_ATTEMPT = (
    *("status", "signal", "prepare_status", "evaluate_status", "cleanup_status"),
    *("duration", "rows", "first_step", "last_step"),
)
_OF_METRIC = ("first", "last", "lowest", "highest")
_VERDICTS = {  # of the others the outcome says it
    "succeeded_with_changed_code": "Succeeded with code that a model changed",
    "cannot_run": "Could not run",
    "timed_out": "Ended at its time limit",
    "running": "Still running",
}
_CONTAINED = {
    "bubblewrap": "it ran in a sandbox (bubblewrap)",
    "landlock": "it ran in a sandbox (Landlock, which does not cover UDP and Unix sockets)",
    "none": "it ran WITHOUT A SANDBOX, with all rights and files of the person who started it",
}

_LONGEST_ERROR = 200
_DID_NOT_TRAIN = ("failed", "cannot_run")
_PASS_RATE = "task_pass_rate@1"

View = dict[str, Any]
"""What a template shows, by its name there."""


def build_view(
    record: Record,
    facts: Mapping[str, Fact],
    run: RunStory,
    result: Result | None,
    missing: tuple[str, ...],
    discrepancies: tuple[Discrepancy, ...],
) -> View:
    """Everything that the documents show. `settings`: chosen for a config that the blueprint does not name;
    `changes`: differences between the attempts' configs that are no deviation; `unused`: prepared for a
    launch that never came; `config`: the newest attempt that has one; `axis`: what the rows' positions are
    called; `proposals`: expressions for a log without metric rows; `printed_errors`: of an attempt that ended
    well; `containment`: in what changed code ran; `mark`: beside every number that a training whose code a
    model changed has measured; `two_values`: of one metric at one place, each pair in words."""
    columns, validations = _validations(record, facts)
    deviating = deviations(run.attempts, record.attempts)
    of_code = tuple(one for one in deviating if one.change.kind == "code")
    sandboxes = dict.fromkeys(each.sandbox for each in run.attempts if each.sandbox)
    settings = ((attempt.number, change) for attempt in run.attempts for change in chosen(attempt.draft))
    mark = "†" if of_code else ""
    return {
        "verdict": _VERDICTS.get(run.outcome, run.outcome.replace("_", " ").capitalize()),
        "seed_note": ONE_SEED,
        "result": result,
        "axis": AXIS_WORDS[record.axis],
        "key_facts": tuple(fact for name, fact in facts.items() if name.startswith("key/")),
        "evaluation": tuple(fact for name, fact in facts.items() if name.startswith("evaluation/")),
        "columns": columns,
        "has_pass_rates": any(column.startswith("task_pass_rate") for column in columns),
        "validations": validations,
        "page_validations": evenly(validations, PAGE_VALIDATIONS),
        "measured_validations": len(record.evaluations),
        "metrics": _metrics(facts),
        "hidden_metrics": max(0, len(listed_metrics(record, result.metric if result else "")) - MAX_METRICS),
        "methods": tuple(sorted({fact.interval.method for fact in facts.values() if fact.interval})),
        "deviations": deviating,
        "code_changes": of_code,
        "other_deviations": tuple(one for one in deviating if one not in of_code),
        "code_diffs": tuple(filter(None, code_diffs(record.result_dir, of_code, len(run.attempts)))),
        "containment": "; ".join(_CONTAINED[each] for each in sandboxes),
        "mark": mark,
        "mark_of": partial(_mark_of, run, mark),
        "settings": tuple(starmap(Deviation, settings)),
        "changes": tuple(
            change
            for change in config_changes(record.attempts)
            if not any(deviation.explains(change) for deviation in deviating)
        ),
        "unused": tuple(Deviation(len(run.attempts) + 1, change) for change in net(run.state.draft.changes)),
        "attempts": tuple(_attempts(record, facts, run)),
        "config": next((attempt for attempt in reversed(record.attempts) if attempt.config_text), None),
        "answers": tuple(note for note in run.events if note.kind == "a question was answered"),
        "two_values": tuple(note for note in run.events if note.kind == "two_values"),
        "missing": missing,
        "discrepancies": discrepancies,
        "proposals": _proposals(record, run),
        "printed_errors": _printed_errors(record, run),
    }


def _mark_of(run: RunStory, mark: str, fact: Fact) -> str:
    """The mark, but for what the author's own code has evaluated, and no code of the training in it."""
    is_trusted = not any(each.ended and each.ended.evaluate_ran for each in run.attempts)
    is_evaluated = any(source.file.endswith(f"/{EVALUATION}") for source in fact.sources)
    return "" if is_evaluated and is_trusted else mark


def _proposals(record: Record, run: RunStory) -> tuple[Proposal, ...]:
    """Expressions that would find metric rows in the log of a training that went well and has none."""
    attempt = record.attempts[-1] if record.attempts else None
    if attempt is None or any(one.rows for one in record.attempts) or run.outcome in _DID_NOT_TRAIN:
        return ()
    log = record.result_dir / attempt.folder / "pane.log"
    return propositions(log) if log.is_file() else ()


def _validations(record: Record, facts: Mapping[str, Fact]) -> tuple[tuple[str, ...], tuple[View, ...]]:
    """The columns of the table, and its rows: a cell per column, None where the number is not known."""
    by_position: dict[str, dict[str, Fact]] = {}
    for name, fact in facts.items():
        if name.startswith("val/"):
            _, position, column = name.split("/", 2)
            by_position.setdefault(position, {})[column] = fact
    columns = tuple(dict.fromkeys(column for cells in by_position.values() for column in cells))
    rows = []
    for evaluation in record.evaluations:
        position = str(whole(evaluation.position))
        if position not in by_position:
            continue
        cells = by_position[position]
        places, rate = list(dict.fromkeys(fact.place for fact in cells.values())), cells.get(_PASS_RATE)
        rows.append(
            {
                "position": position,
                "attempt": evaluation.attempt,
                "cells": tuple(map(cells.get, columns)),
                "interval": rate.interval.text if rate and rate.interval else DASH,
                "place": str(evaluation.source) if evaluation.source else ", ".join(places[:2]),
            }
        )
    return columns, tuple(rows)


def _metrics(facts: Mapping[str, Fact]) -> dict[str, dict[str, Fact | None]]:
    of_metrics = (name.removeprefix("metric/") for name in facts if name.startswith("metric/"))
    keys = (name.removesuffix("/first") for name in of_metrics if name.endswith("/first"))
    return {key: {place: facts.get(f"metric/{key}/{place}") for place in _OF_METRIC} for key in keys}


def _attempts(record: Record, facts: Mapping[str, Fact], run: RunStory) -> Iterator[View]:
    """Every attempt that the journal or a folder knows of. `reason`: how it ended; `evidence`, `log`: what
    its diagnosis cites, and its last lines."""
    known = {attempt.number: attempt for attempt in run.attempts}
    exits = {attempt.number: attempt.exit or {} for attempt in record.attempts}
    for number in sorted({*known, *exits}):
        state = known.get(number, AttemptState(number, "", "", ""))
        found = state.diagnosis
        reason = (state.ended and state.ended.reason) or exits.get(number, {}).get("reason")
        yield {
            "state": state,
            "reason": reason_text(str(reason or "unknown")),
            "facts": {name: facts.get(f"attempt/{number}/{name}") for name in _OF_ATTEMPT},
            "evidence": _cited(record.result_dir, number, found.evidence if found else ()),
            "log": _cited(record.result_dir, number, found.last_lines if found else ()),
        }


def _printed_errors(record: Record, run: RunStory) -> tuple[View, ...]:
    """The exceptions that the last attempt printed although it ended well. The log is read again only where
    the watch saw an error in it."""
    attempt = run.state.attempt
    if attempt is None or attempt.ended is None or not attempt.ended.complete:
        return ()
    file = f"{attempt_folder(attempt.number)}/pane.log"
    is_told = any(note.kind == "error_line" and note.attempt == attempt.number for note in run.events)
    if not is_told or not (record.result_dir / file).is_file():
        return ()
    faults = read(record.result_dir / file, ()).faults
    return tuple(
        _line(Source(file, fault.line), shortened(fault.said[0], _LONGEST_ERROR))
        for fault in faults
        if fault.type and fault.frames and not fault.handled and not fault.depth
    )


def _cited(result_dir: Path, number: int, citations: Sequence[Evidence]) -> tuple[View, ...]:
    """The lines that a diagnosis cites, looked up again in the files of the attempt."""
    sources = [Source(f"{attempt_folder(number)}/{one.file}", one.line) for one in citations]
    reader = SourceReader(result_dir, sources)
    return tuple(
        _line(source, one.text, _is_found(reader, source, one.text))
        for source, one in zip(sources, citations, strict=True)
    )


def _line(source: Source, text: str, is_found: bool = True) -> View:
    """A line as it is cited; `is_found`: the file really holds that text there."""
    return {"source": source, "text": text, "is_found": is_found}


def _is_found(reader: SourceReader, source: Source, text: str) -> bool:
    """True if the line holds the text, or its beginning where a reader has cut a long line."""
    try:
        told, there = ("".join(CONTROL.sub("", each).split()) for each in (text, reader.text(source)))
    except SourceError:
        return False
    return told[:200] in there
