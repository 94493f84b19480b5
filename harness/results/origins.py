"""The rows that a training printed or wrote, read again where a metrics.jsonl says that its rows come from.

In: places (a file, its line or lines). Out: the rows there, parsed as they were when the run was watched. Of
a log only the lines are read that the rows need; the whole of it where these do not tell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from harness.metric_files import format_of
from harness.results.raw import file_inside
from harness.results.types import Source
from monitors.logs import line_of
from monitors.metrics import MetricPatterns, Row
from monitors.metrics.parser import Found, MetricReader

Rows = Mapping[int, Sequence[Row]]
Span = tuple[int, int]


class Origins:
    """The rows at some places of a result folder. `patterns`: the plan's own for metric lines."""

    def __init__(self, result_dir: Path, places: Iterable[Source], patterns: MetricPatterns) -> None:
        self._patterns = patterns
        spans: dict[str, set[Span]] = defaultdict(set)
        for place in places:
            last = place.last_line or place.line or 0
            spans[place.file].add((place.line or 0, last))
        self._rows = {file: self._read(result_dir, file, lines) for file, lines in spans.items()}

    def at(self, place: Source) -> Sequence[Row]:
        """The rows that end on the place's last line."""
        return self._rows.get(place.file, {}).get(place.last_line or place.line or 0, ())

    def _read(self, result_dir: Path, file: str, spans: set[Span]) -> Rows:
        path = file_inside(result_dir, file)
        if path is None:
            return {}
        if (written := format_of(Path(file))) is not None:
            return _by_line(written.read(path))
        found = self._printed(path, _joined(spans))
        ends = {last for _, last in spans}
        return found if ends <= found.keys() else self._printed(path, [(1, max(ends))])

    def _printed(self, path: Path, spans: Sequence[Span]) -> Rows:
        return _by_line((one.line, one.row) for one in self._found(path, spans))

    def _found(self, path: Path, spans: Sequence[Span]) -> Iterator[Found]:
        """The rows of a log in these spans of its lines, which are in order and do not overlap."""
        left, reader = iter(spans), MetricReader(self._patterns)
        first, last = next(left, (0, 0))
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                if number >= first:
                    yield from reader.read(line_of(number, raw.rstrip(b"\n")))
                if number >= last:
                    yield from reader.end()
                    reader, (first, last) = MetricReader(self._patterns), next(left, (0, 0))
                    if not last:
                        return
        yield from reader.end()


def _joined(spans: Iterable[Span]) -> list[Span]:
    """The spans in order, those that overlap as one."""
    found: list[Span] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def _by_line(rows: Iterable[tuple[int, Row]]) -> Rows:
    found: dict[int, list[Row]] = defaultdict(list)
    for line, row in rows:
        found[line].append(row)
    return found
