"""What result.json says, found again in the raw files: facts, fingerprints, figures, and the file itself.

In: a result folder. Out: what was checked, and what differs. Needs no finish.flag, so that a report can be
checked as soon as it is built.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.results.collect import collect
from harness.results.types import Discrepancy, Fact
from harness.results.verify import DOCUMENTS, check_facts, fact_from_json, with_checksum
from harness.results.verifying import schema
from harness.results.verifying.figures import check_figures
from harness.results.verifying.files import differing, in_the_way
from harness.results.verifying.schema import ListedFile, RecordedFigure, UnreadableError
from harness.results.verifying.types import Checked, found

RESULT = "result.json"
_SINCE = "the report was built"
_NOT_RAW = frozenset({"journal.jsonl"})  # a source of numbers that finish.flag vouches for


def check_reported(result_dir: Path, held: Collection[ListedFile] = ()) -> Checked:
    """Everything that result.json says, checked. `held`: files that were held to these very fingerprints
    already. Raises FileNotFoundError when there is no result.json."""
    try:
        text, result = schema.read_object(result_dir / RESULT)
    except UnreadableError as error:
        return Checked(found([(RESULT, str(error))]), files=1)
    wrong: list[Discrepancy] = []
    if not is_as_written(text, result):
        wrong += found([(RESULT, "it is not as it was written: its checksum does not agree with the rest")])
    raw, documents = (_listed(result, part, wrong) for part in ("manifest", "documents"))
    fingerprinted = {item.path for item in documents}
    others = set(held)
    wrong += differing(result_dir, [item for item in (*raw, *documents) if item not in others], _SINCE)
    wrong += found(
        (name, f"{RESULT} has no fingerprint of this document")
        for name in DOCUMENTS
        if name not in fingerprinted
    )
    links = tuple(in_the_way(result_dir))
    if links:  # what they lead to is read by nobody
        return Checked((*wrong, *links), files=len(raw) + len(documents) + 1)
    facts = _facts(result, {item.path for item in raw} | _NOT_RAW, wrong)
    differs = check_facts(result_dir, facts.values())
    wrong += found(differs.items())
    right = {name: fact for name, fact in facts.items() if name not in differs}
    figures = check_figures(collect(result_dir), _figures(result, wrong), right, fingerprinted)
    numbers = sum(3 if fact.interval else 1 for fact in facts.values())
    return Checked(tuple(wrong), numbers, len(raw) + len(documents) + 1) + figures


def is_as_written(text: str, data: Mapping[str, Any]) -> bool:
    """Whether a file that `with_checksum` made still agrees with its checksum, to the last character."""
    rest = {key: value for key, value in data.items() if key != "checksum"}
    try:
        return with_checksum(rest) == text
    except (ValueError, RecursionError):
        return False


def recorded_paths(result_dir: Path) -> set[str]:
    """The files that result.json accounts for, itself among them."""
    try:
        _, result = schema.read_object(result_dir / RESULT)
    except (UnreadableError, OSError):
        return {RESULT}
    ignored: list[Discrepancy] = []
    files = (_listed(result, part, ignored) for part in ("manifest", "documents"))
    return {RESULT, *(item.path for part in files for item in part)}


def _listed(result: Mapping[str, Any], part: str, wrong: list[Discrepancy]) -> Sequence[ListedFile]:
    try:
        return schema.listed_files(result.get(part))
    except UnreadableError as error:
        wrong += found([(f"{RESULT}, {part}", str(error))])
        return ()


def _figures(result: Mapping[str, Any], wrong: list[Discrepancy]) -> Sequence[RecordedFigure]:
    try:
        return schema.figures(result.get("figures"))
    except UnreadableError as error:
        wrong += found([(f"{RESULT}, figures", str(error))])
        return ()


def _facts(result: Mapping[str, Any], raw: set[str], wrong: list[Discrepancy]) -> dict[str, Fact]:
    """The numbers by id, those left out that are not as the harness writes them."""
    items = result.get("facts")
    if not isinstance(items, list):
        wrong += found([(f"{RESULT}, facts", "this must be a list")])
        return {}
    facts: dict[str, Fact] = {}
    for number, item in enumerate(items, start=1):
        place = f"{RESULT}, number {number}"
        try:
            recorded = schema.recorded_fact(item)
        except UnreadableError as error:
            wrong += found([(place, str(error))])
            continue
        strangers = [source.file for source in recorded.sources if source.file not in raw]
        if recorded.id in facts:
            wrong += found([(recorded.id, "this number is there twice")])
        elif strangers:
            wrong += found([(recorded.id, f"its source {strangers[0]} is none of the raw files")])
        else:
            facts[recorded.id] = fact_from_json(item)
    return facts
