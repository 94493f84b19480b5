"""Every number of a report, read again from the raw files and computed again by its recipe.

In: facts. Out: the reasons of those that differ; none means that each number stands where the report says.
Nothing read by `collect` is reused: each source is opened again at its line.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from harness.results import task_statistics
from harness.results.sources import SourceError, SourceReader, same_number
from harness.results.types import Fact, Interval


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


def _compare(fact: Fact, reader: SourceReader) -> str:
    """Why the fact differs from its sources; "" when it does not."""
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
        if fact.recipe == "elapsed":
            return numbers[0] - numbers[1], None
        return (numbers[0] if fact.recipe == "value" else float(getattr(np, fact.recipe)(numbers))), None
    validations = [reader.tasks(source) for source in fact.sources]
    return task_statistics.by_recipe(fact.recipe, validations, fact.measure, fact.unit)
