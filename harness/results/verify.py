"""Every number of a report, read again from the raw files and computed again.

In: facts. Out: the reasons of those that differ; none means that each number stands where the report says.
Nothing read by `collect` is reused: each source is opened again at its line. A metric row is also followed to
the line of the trainer's file or log that it was taken from. `with_checksum` writes result.json itself. What
is done with a finished folder as a whole stands in `verifying`, which is built on this.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.results import task_statistics
from harness.results.sources import SourceError, SourceReader, same_number
from harness.results.types import Fact, Interval, Source

DOCUMENTS = ("validation.md", "trial_and_error.md", "result.md", "report.html")


def check_facts(result_dir: Path, facts: Iterable[Fact]) -> dict[str, str]:
    """Read and compute every fact again; the reasons of those that differ, by fact id."""
    facts = list(facts)
    reader = SourceReader(result_dir)
    reader.fetch(source for fact in facts for source in fact.sources)
    wrong = {}
    for fact in facts:
        try:
            reason = _compare(fact, reader)
        except SourceError as error:
            reason = str(error)
        except (ValueError, LookupError, TypeError, ArithmeticError, OSError) as error:
            reason = f"it cannot be computed again as it is written: {type(error).__name__}: {error}"
        if reason:
            wrong[fact.id] = reason
    return wrong


def with_checksum(result: Mapping[str, Any]) -> str:
    """The text of result.json: everything in it, and at its end the sha256 of all the rest, so that no
    character of it is changed without being noticed. Raises ValueError for what JSON does not know."""
    checksum = hashlib.sha256(_dumped(result).encode()).hexdigest()
    return _dumped({**result, "checksum": checksum}) + "\n"


def _dumped(result: Mapping[str, Any]) -> str:
    return json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False)


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


def fact_from_json(data: Mapping[str, Any]) -> Fact:
    """The inverse of `fact_to_json`."""
    special = {"NaN": math.nan, "∞": math.inf, "−∞": -math.inf}
    value = data["value"] if data["value"] is not None else special.get(data["text"], math.nan)
    return Fact(
        id=data["id"],
        label=data["label"],
        value=value,
        unit=data["unit"],
        recipe=data["recipe"],
        sources=tuple(Source(**source) for source in data["sources"]),
        measure=data.get("measure", ""),
        interval=Interval(**data["interval_95"]) if "interval_95" in data else None,
        note=data.get("note", ""),
        withheld=data.get("withheld", ""),
    )


# --- computing again ---------------------------------------------------------------------------------------


def _compare(fact: Fact, reader: SourceReader) -> str:
    """Why the fact differs from its sources; "" when it does not."""
    if fact.withheld:
        return f"withheld when the report was built: {fact.withheld}"
    again, interval = _compute(fact, reader)
    if not same_number(again, fact.value):
        return f"the report says {fact.value!r}, {fact.place} gives {again!r}"
    if (interval is None) != (fact.interval is None):
        return "the interval cannot be computed again from the sources"
    if interval is None or fact.interval is None:
        return ""
    ends = ((interval.low, fact.interval.low), (interval.high, fact.interval.high))
    if all(same_number(one, other) for one, other in ends):
        return ""
    return f"the report says {fact.interval.text}, {fact.place} gives {interval.text}"


def _compute(fact: Fact, reader: SourceReader) -> tuple[float, Interval | None]:
    if fact.recipe == "row_count":
        return reader.row_count(fact.sources[0].file), None
    if fact.recipe in ("value", "mean", "median", "elapsed"):
        numbers = [reader.number(source) for source in fact.sources]
        return _reduce(fact, numbers), None
    validations = [reader.tasks(source) for source in fact.sources]
    if fact.recipe == "paired_difference":
        values = task_statistics.paired(validations[0], validations[1], fact.measure)
        return float(values.mean()), task_statistics.mean_interval(values, (-1.0, 1.0))
    if fact.recipe == "episode_std":
        return float(np.std([reward for task in validations[0] for reward in task.rewards])), None
    values = task_statistics.task_values(validations[0], fact.measure)
    interval = None
    if fact.recipe == "task_mean":
        interval = task_statistics.mean_interval(values, (0.0, 1.0) if fact.unit == "rate" else None)
    return task_statistics.reduce_tasks(values, fact.recipe), interval


def _reduce(fact: Fact, numbers: list[float]) -> float:
    if fact.recipe == "value":
        return numbers[0]
    if fact.recipe == "elapsed":
        return numbers[0] - numbers[1]
    return float(np.mean(numbers) if fact.recipe == "mean" else np.median(numbers))
