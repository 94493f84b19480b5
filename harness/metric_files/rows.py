"""From the records of a file to its rows."""

from __future__ import annotations

from collections.abc import Iterable

from monitors.metrics import Row, row_from_object

Rows = list[tuple[int, Row]]
"""Each with its line or, of a binary file, its record, from 1."""


def rows_of(records: Iterable[tuple[int, object]]) -> Rows:
    """The rows among numbered records; those without a number are passed over."""
    rows = ((number, row_from_object(record)) for number, record in records)
    return [(number, row) for number, row in rows if row is not None and row.values]
